import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { StateFile } from '../../src/store/state-file.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { FaultBench, until } from './fault-bench.ts';

test('fault:F34 the disk is full under a running gateway: calls and new sessions go on, and waiting writes are saved when there is room', async (t) => {
  try {
    execFileSync('prlimit', ['--version'], { stdio: 'ignore' });
  } catch {
    t.skip('no prlimit here');
    return;
  }
  const bench = new FaultBench(t);
  // A process that starts later would have the limit too.
  const servers = { one: bench.stdio('one', 'stateful', { isolation: 'shared' }) };
  await bench.start(servers);
  await bench.gateway.ready();
  const client = await bench.opened('before');
  assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
  // No byte can be added to any file: every write fails, as on a full disk.
  const room = (bytes: string): void => {
    execFileSync('prlimit', [`--pid=${bench.gateway.process.pid}`, `--fsize=${bytes}:`]);
  };
  room('1');
  const during = await bench.opened('during');
  for (let i = 0; i < 20; i++) {
    for (const each of [client, during]) {
      const attempt = await each.call('one__unsafe');
      assert.equal(attempt.ending, 'RESULT', attempt.reason);
    }
  }
  await until('the warning is logged', () => /state_not_saved/.test(bench.gateway.stderr));
  assert.equal((await bench.status('one')).state, 'running');
  assert.equal((await during.call('one__unsafe')).ending, 'RESULT');
  room('unlimited');
  await until('the state is saved', () => /state_saved_again/.test(bench.gateway.stderr));
  assert.equal(bench.gateway.stderr.match(/state_not_saved/g)?.length, 1, 'the warning is logged once');
  const session = during.sessionId;
  await bench.gateway.stop('SIGKILL');
  await bench.start(servers);
  assert.doesNotMatch(bench.gateway.stderr, /state_set_aside|state_rows_lost/);
  for (const each of [client, during]) {
    const attempt = await each.call('one__unsafe');
    assert.equal(attempt.ending, 'RESULT', attempt.reason);
  }
  assert.equal(during.sessionId, session);
  assert.deepEqual(bench.violations(['one']), []);
});

test('fault:F34 waiting writes are bounded, the newest of each key counts, and stopping does not wait', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-full-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const lines: string[] = [];
  const logger = new Logger({ level: 'warn', write: (line) => lines.push(line) });
  const clock = new FakeClock();
  const path = join(folder, 'state.db');
  const state = new StateFile({ path, clock, logger });
  state.put('b', 'old', Buffer.from('before'));
  state.flush();
  const full = (pages: number): void => state.prepare(`PRAGMA max_page_count = ${pages}`).get() as undefined;
  full(1);
  const large = Buffer.alloc(1024 * 1024, 'x');
  for (let i = 0; i < 40; i++) {
    state.put('b', `large ${i}`, large);
    await clock.advance(200);
  }
  state.put('b', 'small', Buffer.from('first'));
  await clock.advance(200);
  state.put('b', 'small', Buffer.from('second'));
  await clock.advance(200);
  const waiting = [...state.all('b').values()].reduce((sum, value) => sum + value.length, 0);
  assert.ok(waiting < 12 * large.length, `${waiting} bytes wait`);
  assert.equal(state.get('b', 'old')?.toString(), 'before');
  full(100_000);
  await clock.advance(5_000);
  assert.equal(state.get('b', 'small')?.toString(), 'second');
  full(1);
  state.put('b', 'last', large);
  state.close();
  assert.match(lines.join(''), /state_not_saved.*state_saved_again.*state_not_saved/s);
  const next = new StateFile({ path, clock, logger: Logger.silent() });
  assert.equal(next.get('b', 'small')?.toString(), 'second');
  assert.equal(next.get('b', 'last'), null);
  next.close();
});

test('fault:F34 a disk on which no file can be opened: state is kept in memory, with a warning', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-full-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const lines: string[] = [];
  const logger = new Logger({ level: 'warn', write: (line) => lines.push(line) });
  // No user, not even root, can open a folder as a file.
  const state = new StateFile({ path: folder, clock: new FakeClock(), logger });
  state.put('b', 'k', Buffer.from('v'));
  state.flush();
  assert.equal(state.get('b', 'k')?.toString(), 'v');
  assert.match(lines.join(''), /state_in_memory/);
  state.close();
});
