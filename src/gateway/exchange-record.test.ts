import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { BenchExchange, client, endpointOf } from '../../test/support/gateway-bench.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { failure } from '../model/outcome.ts';
import { request } from '../protocol/compose.ts';
import { CallLog } from '../telemetry/call-log.ts';
import type { LogLevel } from '../telemetry/log-format.ts';
import { Logger } from '../telemetry/logger.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { ServerLogs } from '../telemetry/server-logs.ts';
import { ExchangeRecord } from './exchange-record.ts';

interface Line {
  readonly level: string;
  readonly server: string;
  readonly leftOut?: number;
}

function bench(level: LogLevel) {
  const [clock, written] = [new FakeClock(), [] as Line[]];
  const logger = new Logger({ level, write: (line) => written.push(JSON.parse(line)) });
  const calls = new CallLog('run', null, logger);
  const logs = new ServerLogs(logger, 'run');
  const record = new ExchangeRecord({ clock, logger, metrics: new Metrics(), calls });
  const fail = (server: string, times: number): void => {
    for (let i = 0; i < times; i++) {
      const exchange = new BenchExchange(request('tools/call', '1', '{"name":"x"}', 'stateful'), client('stateful'));
      const outcome = failure(new GatewayError('NOT_SENT', 'the process has ended', { server }));
      record.ended(exchange, endpointOf(server), outcome, clock.now());
    }
  };
  const kept = (server: string) => logs.journal.last(server, 10_000).map(({ json }) => JSON.parse(json) as Line);
  return { clock, record, written, calls, fail, kept };
}

test('failed calls of one server write a few lines a second and the number left out; other servers have their own lines', async () => {
  const { clock, written, calls, fail, kept } = bench('info');
  fail('down', 5_000);
  fail('other', 1);
  await clock.advance(1_000);
  fail('down', 1);
  const of = (lines: readonly Line[], server: string) =>
    lines.flatMap((line) => (line.server === server ? [line.leftOut ?? 0] : []));
  assert.deepEqual(of(written, 'down'), [0, 0, 0, 0, 0, 4_995]);
  assert.deepEqual(of(written, 'other'), [0]);
  assert.deepEqual(of(kept('down'), 'down'), of(written, 'down'));
  assert.equal(calls.end, 5_002);
});

test('line limits are kept for a bounded number of servers; beyond it, the limits of all servers start again', () => {
  const { written, fail } = bench('info');
  fail('down', 50);
  for (let i = 0; i <= 10_000; i++) fail(`removed-${i}`, 1);
  const before = written.length;
  fail('down', 50);
  assert.equal(written.length - before, 5);
});

test('at debug every failed call has a line, and the kept log of its server only a few', () => {
  const { written, fail, kept } = bench('debug');
  fail('down', 50);
  assert.deepEqual(
    Object.entries(Object.groupBy(written, ({ level }) => level)).map(([level, lines]) => [level, lines!.length]),
    [
      ['info', 5],
      ['debug', 45],
    ],
  );
  assert.equal(kept('down').length, 5);
});

test('a method named like a member of every object has no asked name; a defect in recording loses no answer', async () => {
  const { clock, record, calls, written } = bench('info');
  const outcome = failure(new GatewayError('METHOD_NOT_FOUND', 'none'));
  for (const method of ['constructor', 'hasOwnProperty', '__proto__']) {
    const exchange = new BenchExchange(request(method, '1', '{"a":1}', 'stateful'), client('stateful'));
    assert.equal(record.ended(exchange, endpointOf('s'), outcome, clock.now()), outcome);
    assert.deepEqual([calls.last(1)[0]!.method, calls.last(1)[0]!.asked], [method, undefined]);
  }
  const defects = () => written.filter(({ level }) => level === 'error').length;
  assert.equal(defects(), 0);
  const failing = new ExchangeRecord({
    ...{ clock, logger: new Logger({ level: 'info', write: (line) => written.push(JSON.parse(line)) }) },
    ...{ metrics: new Metrics(), calls },
    ended: () => {
      throw new TypeError('a defect');
    },
  });
  const exchange = new BenchExchange(request('tools/call', '1', '{"name":"x"}', 'stateful'), client('stateful'));
  assert.equal(failing.ended(exchange, endpointOf('s'), outcome, clock.now()), outcome);
  assert.equal(defects(), 1);
});

test('a request that joined one in flight has a waiting time of 0', async () => {
  const { clock, record, calls } = bench('info');
  const exchange = new BenchExchange(request('resources/read', '1', '{"uri":"x:y"}', 'stateful'), client('stateful'));
  const joined = Object.assign(exchange, { sentAt: clock.now() - 5 });
  record.ended(joined, endpointOf('s'), failure(new GatewayError('UNKNOWN', 'lost')), clock.now());
  assert.equal(calls.last(1)[0]!.waitedMs, 0);
});
