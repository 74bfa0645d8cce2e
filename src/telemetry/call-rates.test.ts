import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { client } from '../../test/support/gateway-bench.ts';
import { CallLog, type EndedCall } from './call-log.ts';
import { CallRates, type DetailedSecond } from './call-rates.ts';
import { Logger } from './logger.ts';

const CALL: EndedCall = {
  request: 'r',
  startedAt: 0,
  ms: 1,
  waitedMs: null,
  method: 'tools/call',
  endpoint: '/mcp',
  client: client('stateful', { info: '{"name":"codex","version":"1"}' }),
  server: 'github',
  name: null,
  outcome: 'RESULT',
  error: null,
  reason: null,
  requestBytes: 0,
  answerBytes: 0,
  servedBy: null,
  tries: 1,
  attempts: null,
  trace: null,
};

function bench(startMs: number) {
  const clock = new FakeClock(startMs);
  const calls = new CallLog('run', null, Logger.silent());
  const rates = new CallRates(calls, clock);
  rates.start();
  const push = (times: number, call: (i: number) => Partial<EndedCall> = () => ({})): void => {
    for (let i = 0; i < times; i++) calls.push({ ...CALL, ...call(i) });
  };
  return { clock, rates, push };
}

test('all calls of each second are counted, by server and by client, however many there are', async () => {
  const { clock, rates, push } = bench(1_000_300);
  const heard: DetailedSecond[] = [];
  const stop = rates.follow((second) => heard.push(second));
  push(9_000, (i) => ({ ms: i % 100, error: i % 3 === 0 ? 'tool_error' : null, server: i % 2 === 0 ? 'a' : 'b' }));
  push(10, () => ({
    server: null,
    client: client('stateless', { info: '{"name":"codex","version":"1","title":"C"}' }),
  }));
  push(1, () => ({ client: client('stateless') }));
  await clock.advance(700);
  const [{ servers, clients, ...second }, ...others] = heard as [DetailedSecond];
  assert.deepEqual(others, []);
  assert.deepEqual(second, {
    time: '1970-01-01T00:16:41.000Z',
    calls: 9_011,
    errors: 3_000,
    p50: 49,
    p95: 94,
    p99: 98,
  });
  assert.deepEqual(servers, [
    { server: 'a', calls: 4_500, errors: 1_500, p50: 50, p95: 94, p99: 98 },
    { server: 'b', calls: 4_500, errors: 1_500, p50: 51, p95: 95, p99: 99 },
    { server: 'github', calls: 1, errors: 0, p50: 1, p95: 1, p99: 1 },
  ]);
  assert.deepEqual(
    clients.map(({ client, revision, calls, errors }) => [client, revision, calls, errors]),
    [
      ['codex 1', '2026-07-28', 9_010, 3_000],
      [null, '2026-07-28', 1, 0],
    ],
  );
  stop();
  await clock.advance(1_000);
  assert.equal(heard.length, 1);
});

test('five minutes are kept, without the seconds in which the process stood still', async () => {
  const { clock, rates, push } = bench(1_000_000);
  push(1);
  await clock.advance(310_000);
  assert.equal(rates.seconds.length, 300);
  assert.deepEqual(rates.seconds.at(-1), {
    time: '1970-01-01T00:21:50.000Z',
    calls: 0,
    errors: 0,
    p50: null,
    p95: null,
    p99: null,
  });
  clock.skip(3_400);
  await clock.advance(1_000);
  assert.deepEqual(
    rates.seconds.slice(-3).map(({ time }) => Date.parse(time) / 1_000),
    [1_310, 1_313, 1_314],
  );
  rates.close();
  assert.equal(clock.pending, 0);
});

test('all calls are counted, also more than the log keeps, and only the names of the busiest clients are read', async () => {
  const { clock, rates, push } = bench(1_000_000);
  let heard: DetailedSecond | null = null;
  rates.follow((second) => {
    heard = second;
  });
  push(12_000, (i) => ({ client: client('stateless', { info: `{"name":"c${i < 11_000 ? i : 0}"}` }) }));
  await clock.advance(1_000);
  const { calls, clients } = heard! as DetailedSecond;
  assert.equal(calls, 12_000);
  assert.equal(clients.length, 32);
  assert.deepEqual([clients[0]?.client, clients[0]?.calls], ['c0', 1_000]);
});
