import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { OtlpTestReceiver } from '../../../test/support/otlp-receiver.ts';
import { systemRandom } from '../../model/random.ts';
import { Secret } from '../../model/secret.ts';
import { Logger } from '../logger.ts';
import { Metrics } from '../metrics.ts';
import { Tracer } from '../tracing.ts';
import { OtlpMetrics } from './otlp-metrics.ts';
import { OtlpSender } from './otlp-sender.ts';
import { OtlpSpans } from './otlp-spans.ts';

const RESOURCE = { 'service.name': 'trunkline', 'service.version': '0', 'trunkline.node': 'a' };
const LINK = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

function rig(url: string) {
  const [clock, metrics, lines] = [new FakeClock(Date.now()), new Metrics(), [] as string[]];
  const lost = metrics.counter('lost', 'x').of();
  const logger = new Logger({ level: 'info', write: (line) => lines.push(line), now: () => 0 });
  const sender = new OtlpSender({ url, headers: { 'x-key': new Secret('k') } }, lost, logger);
  const spans = new OtlpSpans(sender, RESOURCE, lost, clock);
  return { clock, metrics, lines, lost, sender, spans, tracer: new Tracer(spans, clock, systemRandom) };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(5);
}

test('spans arrive in batches, whole or after their delay, with ids, links, times and status', async () => {
  await using receiver = await OtlpTestReceiver.start();
  const { clock, tracer, lost } = rig(`${receiver.url}/v1/traces`);
  const parent = tracer.begin('server', null)!.describe('tools/call x', { 'mcp.method.name': 'tools/call' }, [LINK]);
  const child = tracer.begin('client', parent.traceparent)!;
  await clock.advance(2);
  child.end('tool_error');
  parent.end(null);
  await turn();
  assert.equal(receiver.headers.length, 0);
  await clock.advance(5_000);
  await until(() => receiver.spans.length === 2);
  const [second, first] = receiver.spans as [(typeof receiver.spans)[0], (typeof receiver.spans)[0]];
  assert.deepEqual(
    [first.name, first.kind, first.parentSpanId, first.status],
    ['tools/call x', 2, undefined, undefined],
  );
  assert.deepEqual([second.kind, second.parentSpanId, second.traceId], [3, first.spanId, first.traceId]);
  assert.deepEqual([second.status, second.attributes['error.type']], [{ code: 2 }, 'tool_error']);
  assert.deepEqual(first.links, [{ traceId: LINK.split('-')[1], spanId: LINK.split('-')[2] }]);
  assert.equal(BigInt(second.endTimeUnixNano) - BigInt(second.startTimeUnixNano), 2_000_000n);
  assert.equal(receiver.headers[0]!['x-key'], 'k');

  for (let i = 0; i < 512; i++) tracer.begin('server', null)!.end(null);
  await until(() => receiver.spans.length === 514);
  assert.equal(receiver.headers.length, 2);
  assert.deepEqual([receiver.complaints, lost.value], [[], 0]);
});

test('spans refused with 503 are sent again; spans refused with 400 or 401, or over the queue limit, are lost and counted', async () => {
  await using receiver = await OtlpTestReceiver.start();
  const { clock, tracer, lost, lines } = rig(`${receiver.url}/v1/traces`);
  receiver.refusals.push(503);
  tracer.begin('server', null)!.end(null);
  await clock.advance(5_000);
  await until(() => receiver.headers.length === 1);
  // The sender waits for the receiver: the queue fills up.
  for (let i = 0; i < 2_100; i++) tracer.begin('server', null)!.end(null);
  assert.equal(lost.value, 52);
  await until(() => receiver.spans.length === 2_049);
  assert.deepEqual([lost.value, lines], [52, []]);

  receiver.refusals.push(400, 401);
  for (const more of [1, 2]) {
    tracer.begin('server', null)!.end(null);
    await clock.advance(5_000);
    await until(() => lost.value === 52 + more);
  }
  tracer.begin('server', null)!.end(null);
  await clock.advance(5_000);
  await until(() => lines.length === 2);
  const said = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    said.map(({ event, reason, lost: count }) => [event, reason, count]),
    [
      ['otlp_failed', 'the receiver answered 400', 1],
      ['otlp_recovered', undefined, undefined],
    ],
  );
});

test('close sends the spans that wait, and does not wait for a receiver that is away', async () => {
  const receiver = await OtlpTestReceiver.start();
  const { tracer, spans } = rig(`${receiver.url}/v1/traces`);
  tracer.begin('server', null)!.end(null);
  await spans.close();
  assert.equal(receiver.spans.length, 1);
  await receiver[Symbol.asyncDispose]();
  const away = rig(`${receiver.url}/v1/traces`);
  away.tracer.begin('server', null)!.end(null);
  await away.spans.close();
  assert.equal(away.lost.value, 1);
  assert.match(away.lines.join(), /otlp_failed.*ECONNREFUSED/);
});

test('metrics do not pile up while a receiver is away: one post is tried again, and close sends one more', async () => {
  await using receiver = await OtlpTestReceiver.start();
  const { clock, metrics, sender, lost } = rig(`${receiver.url}/v1/metrics`);
  const calls = metrics.counter('trunkline_things_total', 'x', []).of();
  const pushed = new OtlpMetrics(sender, RESOURCE, metrics, 10_000, clock);
  receiver.refusals.push(503);
  await clock.advance(10_000);
  await until(() => receiver.headers.length === 1);
  for (let i = 0; i < 20; i++) {
    calls.add();
    await clock.advance(10_000);
  }
  await pushed.close();
  assert.equal(receiver.headers.length, 3);
  assert.deepEqual([receiver.points.at(-1)?.point['asDouble'], lost.value], [20, 0]);
});

test('metrics are sent at their interval and at the end, as totals, with the names of the conventions', async () => {
  await using receiver = await OtlpTestReceiver.start();
  const { clock, metrics, sender, lost } = rig(`${receiver.url}/v1/metrics`);
  const duration = metrics.histogram('mcp_server_operation_duration_seconds', 'x', ['mcp_method_name', 'error_type']);
  const calls = metrics.counter('trunkline_things_total', 'x', ['server']);
  const pushed = new OtlpMetrics(sender, RESOURCE, metrics, 10_000, clock);
  duration.of('tools/call', '').observe(0.015);
  duration.of('tools/call', '').observe(1_000);
  calls.of('a').add(3);
  await clock.advance(10_000);
  await until(() => receiver.points.length === 3);
  const histogram = receiver.points.find(({ kind }) => kind === 'histogram')!;
  assert.equal(histogram.metric, 'mcp.server.operation.duration');
  assert.deepEqual(histogram.attributes, { 'mcp.method.name': 'tools/call' });
  assert.deepEqual(histogram.point['bucketCounts'], ['0', '1', ...Array.from({ length: 12 }, () => '0'), '1']);
  assert.equal(histogram.point['sum'], 1_000.015);
  calls.of('a').add(2);
  await pushed.close();
  const last = receiver.points.findLast(({ metric }) => metric === 'trunkline_things_total')!;
  assert.deepEqual([last.kind, last.attributes, last.point['asDouble']], ['sum', { server: 'a' }, 5]);
  assert.deepEqual([receiver.complaints, lost.value], [[], 0]);
});
