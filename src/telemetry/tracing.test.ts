import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../test/support/fake-clock.ts';
import { SpanLog } from '../../test/support/span-log.ts';
import { systemRandom } from '../model/random.ts';
import { Tracer } from './tracing.ts';

const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

function rig(sample = 1) {
  const [clock, log] = [new FakeClock(), new SpanLog()];
  return { clock, log, tracer: new Tracer(log, clock, systemRandom, sample) };
}

test('a span has its time, parent, links and status', async () => {
  const { clock, log, tracer } = rig();
  const span = tracer.begin('client', PARENT)!.describe('a', { k: 'v' }, [PARENT, 'no link']);
  await clock.advance(12);
  span.end('-32603');
  const [{ spanId, startedAt, ...rest }] = log.spans as [(typeof log.spans)[0]];
  assert.equal(span.traceparent, `00-0af7651916cd43dd8448eb211c80319c-${spanId}-01`);
  assert.match(spanId, /^[0-9a-f]{16}$/);
  assert.equal(startedAt, clock.wall() - 12);
  assert.deepEqual(rest, {
    traceId: '0af7651916cd43dd8448eb211c80319c',
    parentId: 'b7ad6b7169203331',
    name: 'a',
    kind: 'client',
    links: [PARENT],
    attributes: { k: 'v', 'error.type': '-32603', 'rpc.response.status_code': '-32603' },
    durationMs: 12,
  });
});

test('an invalid traceparent begins a new trace; one of a later version counts; one that is not recorded makes no span', () => {
  const { log, tracer } = rig();
  const malformed = [
    'x',
    `ff${PARENT.slice(2)}`,
    PARENT.toUpperCase(),
    PARENT.slice(1),
    `${PARENT}x`,
    PARENT.replace('0af7651916cd43dd8448eb211c80319c', '0'.repeat(32)),
    PARENT.replace('b7ad6b7169203331', '0'.repeat(16)),
    `${PARENT}-${'x'.repeat(500)}`,
  ];
  for (const parent of [null, ...malformed]) tracer.begin('server', parent)!.end(null);
  assert.deepEqual(
    log.spans.map(({ parentId }) => parentId),
    [null, ...malformed.map(() => null)],
  );
  assert.equal(new Set(log.spans.map(({ traceId }) => traceId)).size, malformed.length + 1);
  assert.match(tracer.begin('server', `01${PARENT.slice(2)}-more`)!.traceparent, /^00-0af765/);
  assert.equal(tracer.begin('server', PARENT.replace(/01$/, '00')), null);
  assert.equal(tracer.begin('server', PARENT.replace(/01$/, '02')), null);
});

test('a share of the traces that begin here is recorded, and all of those that a caller records', () => {
  const { tracer } = rig(0.1);
  const begun = Array.from({ length: 10_000 }, () => tracer.begin('server', null)).filter((span) => span !== null);
  assert.ok(begun.length > 800 && begun.length < 1_200, String(begun.length));
  for (let i = 0; i < 100; i++) assert.ok(tracer.begin('server', PARENT) !== null);
  assert.equal(rig(0).tracer.begin('server', null), null);
  // Only a request of a client begins a trace: other spans need a parent.
  assert.deepEqual([rig().tracer.begin('internal', null), rig().tracer.begin('client', null)], [null, null]);
});
