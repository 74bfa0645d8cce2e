import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBus, onNodes, serverNamed, TestExchange } from '../../test/support/cluster-bench.ts';
import { FakeClock, settled } from '../../test/support/fake-clock.ts';
import { MemoryHub } from '../bus/memory/memory-wire.ts';
import { Lifetime } from './lifetime.ts';
import { LEASE_MS } from './nodes/lease-record.ts';

test('subscriptions, handlers and timers of a cluster end with it, and no timer starts afterwards', async () => {
  const clock = new FakeClock();
  const hub = new MemoryHub();
  const [bus, other] = [memoryBus(hub, clock), memoryBus(hub, clock)];
  const lifetime = new Lifetime(bus, clock);
  const happened: string[] = [];
  lifetime.bus.subscribe('trunkline.told', () => void happened.push('told'));
  lifetime.bus.serve('trunkline.asked', (serving) => {
    happened.push('asked');
    serving.answer(Buffer.alloc(0));
  });
  const once = (): Promise<unknown> => {
    other.publish('trunkline.told', Buffer.alloc(0));
    return other.call('trunkline.asked', Buffer.alloc(0), { to: bus.peer, deadlineMs: 1_000 }).outcome;
  };
  lifetime.clock.after(10, () => happened.push('passed'));
  lifetime.clock.after(10, () => happened.push('never'))();
  await clock.advance(10);
  await once();
  assert.deepEqual(happened.splice(0).sort(), ['asked', 'passed', 'told']);
  lifetime.clock.after(10, () => happened.push('passed'));
  lifetime.close();
  lifetime.clock.after(10, () => happened.push('passed'));
  await clock.advance(20);
  const refused = once();
  await settled();
  assert.equal(((await refused) as { kind: string }).kind, 'failure');
  assert.deepEqual(happened, []);
  await Promise.all([bus.close(), other.close()]);
});

test('a call that looks for a node is NOT_SENT when its cluster closes', () =>
  onNodes(async (nodes) => {
    const a = await nodes.join('a', []);
    const b = await nodes.join('b', [serverNamed('memory')]);
    b.cut();
    await nodes.pass(1_700);
    const exchange = new TestExchange();
    const called = a.cluster.upstreams.call('memory', exchange.request, exchange);
    await nodes.pass(100);
    await nodes.until(a.cluster.close());
    const outcome = await nodes.until(called);
    assert.equal(outcome.kind === 'failure' && outcome.error.code, 'NOT_SENT');
  }));

test('a closed cluster leaves no timers', () =>
  onNodes(async (nodes) => {
    const node = await nodes.join('a', [serverNamed('memory')]);
    await nodes.until(node.cluster.close());
    await node.bus.close();
    // Records of the store expire.
    await nodes.clock.advance(LEASE_MS);
    const { pending } = nodes.clock;
    await nodes.pass(5_000);
    assert.equal(nodes.clock.pending, pending);
    assert.equal(pending, 0);
  }));
