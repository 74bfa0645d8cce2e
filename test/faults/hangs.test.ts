import assert from 'node:assert/strict';
import { test } from 'node:test';
import { percentile } from '../soak/proof.ts';
import { FaultBench, until } from './fault-bench.ts';
import { entriesOf } from './ledger/ledger-entry.ts';
import { FULL, measured } from './measured.ts';

test('fault:F05 a call that hangs ends with TIMEOUT at its deadline and is cancelled at the server; others on the pipe go on', async (t) => {
  const bench = new FaultBench(t);
  const timeoutMs = FULL ? 10_000 : 1_500;
  await bench.start({ one: bench.stdio('one', 'stateful', { isolation: 'shared', timeoutMs }) });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  const [pid] = await bench.pids('one');
  for (let round = 1; round <= 3; round++) {
    const hanging = client.call('one__hang');
    let neighbours = 0;
    const beside: number[] = [];
    let settled = false;
    void hanging.then(() => (settled = true));
    while (!settled) {
      const { ending, startedAt, endedAt } = await client.call('one__unsafe');
      assert.equal(ending, 'RESULT');
      beside.push(endedAt! - startedAt);
      neighbours++;
    }
    const attempt = await hanging;
    assert.equal(attempt.ending, 'UNKNOWN');
    assert.match(attempt.reason, /TIMEOUT|53003/);
    const took = attempt.endedAt! - attempt.startedAt;
    measured(t, 'F05', 'beyond the deadline', (100 * (took - timeoutMs)) / timeoutMs, '%', 1);
    measured(t, 'F05', 'a call beside it, p99 of each time', percentile(beside, 99), 'ms');
    assert.ok(took >= timeoutMs * 0.99 && took < timeoutMs + 10_000, `${took} ms`);
    assert.ok(neighbours > 10, `${neighbours} calls beside it`);
    await until('the server knows', () =>
      entriesOf(bench.ledger('one'), 'cancelled').some(({ call }) => call === attempt.call),
    );
  }
  // The server answers other calls, so it keeps its process.
  assert.deepEqual(await bench.pids('one'), [pid]);
  assert.deepEqual(bench.violations(['one'], { deadlineMs: timeoutMs }), []);
});

test('fault:F05 a process is replaced after three deadlines in a row and no answer to the probe', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one', 'stateful', { timeoutMs: 400 }), other: bench.stdio('other') });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  assert.equal((await client.call('one__stop_reading')).ending, 'RESULT');
  const [deaf] = await bench.pids('one');
  for (let i = 0; i < 3; i++) {
    const attempt = await client.call('one__unsafe');
    assert.match(attempt.reason, /TIMEOUT|53003/);
  }
  await until('a call succeeds again', async () => {
    const attempt = await client.call('one__unsafe');
    if (attempt.ending !== 'RESULT') assert.equal((await client.call('other__unsafe')).ending, 'RESULT');
    return attempt.ending === 'RESULT';
  });
  assert.notEqual((await bench.pids('one'))[0], deaf);
  assert.deepEqual(bench.violations(['one', 'other']), []);
});

test('fault:F13 a server that stops reading: refused at once when the queue is full, every call ends, other sessions go on', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one', 'stateful', { timeoutMs: 20_000 }) });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  const other = await bench.opened('two');
  assert.equal((await other.call('one__unsafe')).ending, 'RESULT');
  assert.equal((await client.call('one__stop_reading')).ending, 'RESULT');
  const text = 'x'.repeat(256 * 1024);
  const calls = Array.from({ length: 60 }, () => client.call('one__unsafe', { text }));
  let refused = 0;
  for (const call of calls) void call.then(({ ending }) => (refused += ending === 'REFUSED' ? 1 : 0));
  const before = performance.now();
  const first = await Promise.any(calls.map(async (call) => ({ attempt: await call, ms: performance.now() - before })));
  assert.match(first.attempt.ending!, /REFUSED|NOT_SENT/);
  assert.ok(first.ms < 15_000, `${first.ms} ms`);
  measured(t, 'F13', 'to the first refusal', first.ms, 'ms');
  assert.equal((await other.call('one__unsafe')).ending, 'RESULT');
  await until('what the queue does not take is refused', () => refused > 20);
  // The process dies: every queued call ends at once.
  const dead = performance.now();
  for (const pid of await bench.pids('one')) process.kill(-pid, 'SIGKILL');
  const ended = await Promise.all(calls);
  measured(t, 'F13', 'from its death to the end of the last call', performance.now() - dead, 'ms');
  assert.ok(performance.now() - dead < 10_000, `${performance.now() - dead} ms`);
  assert.ok(ended.every(({ ending }) => ending !== null));
  assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
  assert.deepEqual(bench.violations(['one']), []);
});
