import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { MARK, markedProcesses, survivors } from '../support/processes.ts';
import { EventStream } from './event-stream.ts';
import { FaultBench, until } from './fault-bench.ts';
import { gatewayCycles } from './gateway-cycles.ts';
import { entriesOf, readLedger } from './ledger/ledger-entry.ts';
import { LedgerHttpProcess } from './ledger/ledger-process.ts';

for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
  test(`a client continues its session after ${signal} and a start; HTTP sessions are resumed, lost state is reported`, async (t) => {
    const bench = new FaultBench(t);
    const remote = await LedgerHttpProcess.start(bench.ledger('remote'), 'stateful');
    t.after(() => remote.kill());
    const servers = { remote: { type: 'http', url: remote.url }, local: bench.stdio('local') };
    await bench.start(servers, { log: { level: 'debug' } });
    await bench.gateway.ready();
    const client = await bench.opened('one');
    const id = client.sessionId;
    for (const tool of ['remote__unsafe', 'local__unsafe']) assert.equal((await client.call(tool)).ending, 'RESULT');
    const stream = await EventStream.open(client);
    await until('the first event', () => stream.lastEventId !== '');
    await sleep(300);
    const sessions = entriesOf(bench.ledger('remote'), 'session').length;

    const code = await bench.gateway.stop(signal);
    assert.equal(code, signal === 'SIGTERM' ? 0 : null);
    assert.deepEqual(await survivors(bench.mark, 2_000), []);
    await bench.start(servers, { log: { level: 'debug' } });

    // The client continues the same session, without a new one.
    const resumed = await EventStream.open(client, stream.lastEventId);
    for (const tool of ['remote__unsafe', 'local__unsafe']) {
      const attempt = await client.call(tool);
      assert.equal(attempt.ending, 'RESULT', `${tool}: ${attempt.reason}`);
    }
    assert.equal(client.sessionId, id);
    // The discovery connection is the gateway's own; the client's session at the server was resumed.
    assert.ok(entriesOf(bench.ledger('remote'), 'session').length <= sessions + 1);
    await until('the loss of the local state is reported', () => /lost|restart|state/i.test(resumed.text()), 10_000);
    assert.match(resumed.text(), /notifications\/message/);
    assert.match(resumed.text(), /local/);
    assert.doesNotMatch(resumed.text(), /"remote"/);
    stream.close();
    resumed.close();
    assert.deepEqual(bench.violations(['remote', 'local']), []);
  });
}

test('messages that a client missed are replayed after the gateway was killed: the answer of its broken stream', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  const call = await EventStream.call(client, 'one__slow', { call: 'replayed', ms: 1_800 });
  await until('the answer has become a stream', () => call.lastEventId !== '');
  const mark = call.lastEventId;
  call.close();
  await until('the call is over', () => entriesOf(bench.ledger('one'), 'executed').length === 1);
  await sleep(1_500);
  await bench.gateway.stop('SIGKILL');
  await bench.start({ one: bench.stdio('one') });
  const replay = await EventStream.open(client, mark);
  await until('the answer is replayed', () => replay.text().includes('done replayed'));
  replay.close();
});

test('SIGTERM drains: not ready, no new sessions, the call in flight is answered, exit 0, nothing left', async (t) => {
  const bench = new FaultBench(t);
  await bench.start({ one: bench.stdio('one') });
  await bench.gateway.ready();
  const client = await bench.opened('one');
  assert.equal((await client.call('one__unsafe')).ending, 'RESULT');
  const slow = client.call('one__slow', { ms: 1_500 });
  await until('it is in flight', () => entriesOf(bench.ledger('one'), 'executed').length === 2);
  bench.gateway.process.kill('SIGTERM');
  const ready = new URL('/readyz', bench.gateway.mcpUrl);
  await until('no longer ready', async () =>
    fetch(ready).then(
      ({ status }) => status === 503,
      () => true,
    ),
  );
  await assert.rejects(bench.opened('late'));
  const attempt = await slow;
  assert.equal(attempt.ending, 'RESULT', attempt.reason);
  assert.equal(await bench.gateway.exited, 0);
  assert.deepEqual(await survivors(bench.mark, 1_000), []);
  assert.deepEqual(bench.violations(['one']), []);
});

test('check:A12 goal:G7 20 start and kill cycles of the gateway with four servers, kill -9 included, leave no process', async (t) => {
  const bench = new FaultBench(t);
  const result = await gatewayCycles(bench, { cycles: 20, kills: (i) => i % 2 === 0 });
  assert.deepEqual(result.leaked, []);
  assert.ok(result.started >= 52, `${result.started} processes were started`);
  assert.ok(Math.max(...result.goneMs) < 10_000, `${result.goneMs}`);
});

test('fault:F15 a removed server that ignores SIGTERM and has grandchildren is gone with all processes; its neighbour stays', async (t) => {
  const bench = new FaultBench(t);
  const family = `trap '' TERM; sleep 600 & sleep 600 & exec node "$@"`;
  const stubborn = bench.stdio('stubborn') as { args: string[]; command: string; env: Record<string, string> };
  const good = bench.stdio('good', 'stateful', { env: { [MARK]: `${bench.mark}-good` } });
  await bench.start({
    good,
    stubborn: {
      ...stubborn,
      command: 'sh',
      args: ['-c', family.replace('node', stubborn.command), 'sh', ...stubborn.args],
    },
  });
  await bench.gateway.ready();
  assert.equal(markedProcesses(bench.mark).length, 3);
  const pids = await bench.pids('good');
  bench.gateway.rewrite({ mcpServers: { good } });
  assert.deepEqual(await survivors(bench.mark, 12_000), []);
  assert.deepEqual(await bench.pids('good'), pids);
  assert.deepEqual(readLedger(bench.ledger('good')).filter(({ event }) => event === 'started').length, 1);
  await bench.gateway.stop();
  assert.deepEqual(await survivors(`${bench.mark}-good`, 2_000), []);
});
