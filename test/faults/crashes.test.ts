import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { statOf } from '../../src/upstream/process/process-group.ts';
import { crashRun } from './crash-run.ts';
import { FaultBench, until } from './fault-bench.ts';
import { entriesOf, executed } from './ledger/ledger-entry.ts';
import { FULL, measured } from './measured.ts';

test('fault:F01 servers that die at start in three ways: failed with the reason, few attempts, and no effect on other servers', async (t) => {
  const bench = new FaultBench(t);
  const spawns = join(bench.folder, 'spawns');
  const script = `echo x >> ${spawns}; echo "no frobnicator; key=sk-planted-0123456789" >&2; exit 7`;
  await bench.start({
    good: bench.stdio('good'),
    exits: { command: 'sh', args: ['-c', script], env: { API_KEY: 'sk-planted-0123456789' } },
    missing: { command: join(bench.folder, 'no-such-program') },
    forbidden: { command: bench.folder },
  });
  await until('all three have failed', async () => {
    const states = await Promise.all(['exits', 'missing', 'forbidden'].map((name) => bench.status(name)));
    return states.every(({ state }) => state === 'failed');
  });
  await bench.gateway.ready('good');
  const exits = await bench.status('exits');
  assert.equal(exits.lastExit?.code, 7);
  assert.match(exits.stderrTail, /no frobnicator/);
  assert.doesNotMatch(JSON.stringify(exits), /sk-planted/);
  assert.match((await bench.status('missing')).reason ?? '', /no-such-program/);
  assert.ok(((await bench.status('forbidden')).reason ?? '').length > 0);

  const again = performance.now();
  await bench.gateway.control('/api/v1/servers/missing/restart', 'POST');
  await until('it has failed again', async () => (await bench.status('missing')).state === 'failed');
  measured(t, 'F01', 'from the start to failed', performance.now() - again, 'ms', 1_000);

  const client = await bench.opened('one');
  const [pid] = await bench.pids('good');
  const before = performance.now();
  const refused = await client.call('missing__safe');
  assert.equal(refused.ending, 'NOT_SENT', refused.reason);
  assert.ok(performance.now() - before < 5_000);
  for (let i = 0; i < 10; i++) assert.equal((await client.call('good__unsafe')).ending, 'RESULT');
  assert.deepEqual(await bench.pids('good'), [pid]);

  // Attempts at 0, 1 and 3 s (less the jitter), and one that a client asked for; from then on the curve begins at 30 s.
  // An attempt starts the process twice: a server that dies of an unknown first message may accept another.
  await until('the third attempt', async () => (await bench.status('exits')).consecutiveFailures === 3);
  const spawned = readFileSync(spawns, 'utf8').length / 2;
  assert.ok(spawned >= 3 && spawned <= 8, `${spawned} starts`);
  await sleep(2_500);
  assert.equal(readFileSync(spawns, 'utf8').length / 2, spawned);
  const { nextRetryAt, consecutiveFailures } = await bench.status('exits');
  assert.equal(consecutiveFailures, 3);
  assert.ok(nextRetryAt !== null && nextRetryAt - Date.now() > 15_000, `${nextRetryAt}`);
  assert.deepEqual(bench.violations(['good']), []);
});

test('fault:F02 killed while nothing is in flight: later calls reach the fresh process, and no client sees an error', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  await client.request('tools/list');
  assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
  const [pid] = await bench.pids('one');
  process.kill(-pid!, 'SIGKILL');
  // A killed process holds its pipes until the last of its threads has ended. Until then the pipe accepts calls that no
  // thread reads; the gateway cannot distinguish them from calls that have run, so they are UNKNOWN.
  await until('the last thread of it has ended', () => endedAltogether(pid!));
  const first = await Promise.all(Array.from({ length: 20 }, () => client.call('one__unsafe')));
  assert.deepEqual(
    first.filter(({ ending }) => ending !== 'RESULT').map(({ ending }) => ending),
    [],
  );
  const endings = new Map<string, number>();
  for (let i = 20; i < 1_000; i += 20) {
    const attempts = await Promise.all(Array.from({ length: 20 }, () => client.call('one__unsafe')));
    for (const { ending } of attempts) endings.set(`${ending}`, (endings.get(`${ending}`) ?? 0) + 1);
  }
  assert.deepEqual([...endings], [['RESULT', 980]]);
  assert.deepEqual(bench.violations(['one']), []);
});

test('fault:F03 goal:G6 kills under 16 clients: notified at once, back at once, and the ledger agrees with every answer', async (t) => {
  const bench = new FaultBench(t);
  const run = await crashRun(bench, { kills: FULL ? 200 : 20, clients: 16 });
  measured(t, 'F03', 'error to the caller', run.reportedMs, 'ms', 100);
  measured(t, 'F03', 'server back', run.backMs, 'ms', 1_500);
  assert.deepEqual(bench.violations(['shared'], { repeatable: new Set(['safe', 'safe_slow']) }), []);
  assert.deepEqual(run.unexpected, []);
  const { RESULT, UNKNOWN } = bench.history.endings();
  assert.ok(RESULT > 200, `${RESULT} results`);
  assert.ok(UNKNOWN > 0, 'no kill met a call');
  // The gateway repeated safe calls, without an error at their clients.
  const repeated = new Set(
    entriesOf(bench.ledger('shared'), 'executed')
      .filter(({ tool, call }, i, all) => tool === 'safe_slow' && all.findIndex((other) => other.call === call) < i)
      .map(({ call }) => call),
  );
  assert.ok(repeated.size > 0, 'no safe call was repeated');
  assert.ok(
    run.backMs.every((ms) => ms < 10_000),
    `${run.backMs}`,
  );
});

test('fault:F03 crashes before and after the work are both UNKNOWN, never repeated where the operator did not allow it', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') });
  await bench.gateway.ready();
  for (const tool of ['crash_before', 'crash_after', 'half_and_die']) {
    const client = await bench.opened(tool);
    const { ending, call } = await client.call(`one__${tool}`);
    assert.equal(ending, 'UNKNOWN', tool);
    assert.equal(executed(bench.ledger('one'), call), tool === 'crash_before' ? 0 : 1, tool);
    assert.equal((await client.call('one__unsafe')).ending, 'RESULT', `after ${tool}`);
  }
  assert.deepEqual(bench.violations(['one']), []);
});

test('fault:F04 a server that answers and dies at once: the answer arrives every time', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  for (let i = 0; i < 5; i++) {
    const attempt = await client.call('one__answer_and_die');
    assert.equal(attempt.ending, 'RESULT', attempt.reason);
    // The server may have read a call that is sent before its death is noticed.
    await until('its death is noticed', async () => (await bench.status('one')).restarts === i + 1);
  }
  assert.deepEqual(bench.violations(['one']), []);
});

test('fault:F08 half an answer before the end is no answer: UNKNOWN for its call and its neighbours, then all is well', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one', 'stateful', { isolation: 'shared' }) });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  const neighbour = client.call('one__hang');
  await until('the neighbour is in flight', () => entriesOf(bench.ledger('one'), 'executed').length === 1);
  assert.equal((await client.call('one__half_and_die')).ending, 'UNKNOWN');
  assert.equal((await neighbour).ending, 'UNKNOWN');
  assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
  assert.deepEqual(bench.violations(['one']), []);
});

/** Whether at most the exit status of the process is left. Linux only. */
function endedAltogether(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).length <= 1 && statOf(pid)?.state === 'Z';
  } catch {
    return true;
  }
}
