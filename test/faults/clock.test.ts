import assert from 'node:assert/strict';
import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { EventStream } from './event-stream.ts';
import { FaultBench, until } from './fault-bench.ts';
import { entriesOf, executed } from './ledger/ledger-entry.ts';

const FOLDERS = ['/usr/lib/x86_64-linux-gnu', '/usr/lib/aarch64-linux-gnu', '/usr/lib64', '/usr/lib'];
const FAKETIME = FOLDERS.map((folder) => `${folder}/faketime/libfaketime.so.1`).find((path) => existsSync(path));
const skip = FAKETIME === undefined ? 'libfaketime is not installed' : false;

for (const [direction, offset] of [
  ['forward', '+3600s'],
  ['back', '-3600s'],
] as const) {
  test(`fault:F38 the clock of a running gateway jumps ${direction} by an hour: calls, deadlines, retries, sessions and resumption go on`, {
    skip,
  }, async (t) => {
    const bench = new FaultBench(t);
    const clock = join(bench.folder, 'clock');
    const set = (to: string): void => {
      // In one step: a reader of a half-written file would see a wrong time.
      writeFileSync(`${clock}.new`, `${to}\n`);
      renameSync(`${clock}.new`, clock);
    };
    set('+0s');
    const env = {
      LD_PRELOAD: FAKETIME!,
      FAKETIME_TIMESTAMP_FILE: clock,
      FAKETIME_NO_CACHE: '1',
      // The system promises that no process sets the monotonic clock.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    };
    const down = { command: process.execPath, args: ['-e', 'process.exit(3)'] };
    const servers = { one: bench.stdio('one'), brief: bench.stdio('brief', 'stateful', { timeoutMs: 2_000 }), down };
    await bench.start(servers, {}, env);
    await bench.gateway.ready('one', 'brief');
    const client = await bench.opened('one');
    const idle = await bench.opened('idle');
    assert.equal((await idle.call('one__unsafe')).ending, 'RESULT');
    const pids = await bench.pids('one');
    await until('the server that is down has its retry planned', async () => {
      const { consecutiveFailures } = await bench.status('down');
      return consecutiveFailures >= 3;
    });
    const failures = (await bench.status('down')).consecutiveFailures;
    const slow = client.call('one__slow', { ms: 1_500 });
    const hanging = client.call('brief__hang');
    const stream = await EventStream.call(client, 'one__slow', { call: 'resumed', ms: 1_500 });
    await until('all run', () => executed(bench.ledger('one'), 'resumed') === 1 && ran(bench, 'brief') === 1);
    await until('the stream can be resumed', () => stream.lastEventId !== '');
    const mark = stream.lastEventId;
    stream.close();
    set(offset);
    const patient = await slow;
    assert.equal(patient.ending, 'RESULT', patient.reason);
    const late = await hanging;
    assert.equal(late.ending, 'UNKNOWN', late.reason);
    assert.ok(late.endedAt! - late.startedAt >= 1_900, `the deadline came after ${late.endedAt! - late.startedAt} ms`);
    // If the jump counted, the answer would be gone: it is kept for five minutes.
    const resumed = await EventStream.open(client, mark);
    await until('the answer is fetched', () => /done resumed/.test(resumed.text()));
    resumed.close();
    const session = idle.sessionId;
    assert.equal((await idle.call('one__unsafe')).ending, 'RESULT');
    assert.equal(idle.sessionId, session);
    const third = await bench.opened('third');
    assert.notEqual(third.sessionId, session);
    assert.equal((await third.call('one__unsafe')).ending, 'RESULT');
    for (const pid of pids) assert.ok((await bench.pids('one')).includes(pid), 'a process was closed');
    const { consecutiveFailures, nextRetryAt, lastAttemptAt } = await bench.status('down');
    assert.ok(consecutiveFailures <= failures + 1, `${consecutiveFailures} attempts`);
    assert.ok(nextRetryAt === null || Math.abs(nextRetryAt - lastAttemptAt!) < 60_000, 'the retry moved by the jump');
    // The jump was real: Node dates every answer.
    const dated = (await fetch(new URL('/readyz', bench.gateway.mcpUrl))).headers.get('date')!;
    const ahead = Date.parse(dated) - Date.now();
    assert.ok(Math.abs(ahead - Number.parseInt(offset, 10) * 1000) < 600_000, `ahead by ${ahead} ms`);
    // The call whose answer was fetched over streams is not in the history.
    assert.deepEqual(
      bench.violations(['one', 'brief']).filter(({ call }) => call !== 'resumed'),
      [],
    );
  });
}

function ran(bench: FaultBench, name: string): number {
  return entriesOf(bench.ledger(name), 'executed').length;
}
