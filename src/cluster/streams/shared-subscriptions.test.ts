import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LossyStore } from '../../../test/support/lossy-store.ts';
import { resource, SESSION, SlowHearing, SubscriptionsBench } from '../../../test/support/subscriptions-bench.ts';
import { ownerOf, type SharedSubscription } from './shared-subscriptions.ts';

test('check:C9 when a node ends, only one of the other nodes subscribes again', async () => {
  const bench = new SubscriptionsBench();
  const [a, b, c] = [await bench.node('a'), await bench.node('b'), await bench.node('c')];
  a.made(resource());
  a.made(resource('counter://other'));
  await bench.pass(50);
  for (const node of ['b', 'c']) bench.listening.add(node);
  bench.there.delete('a');
  a.close();
  for (const node of [b, c]) node.nodeGone('a');
  await bench.pass(100);
  const reported = bench.take();
  assert.equal(reported.length, 2);
  assert.ok(reported.some((line) => line.endsWith('again counter://value')));
  assert.ok(reported.some((line) => line.endsWith('again counter://other')));
  // A repeated report of the end and an opened stream cause no further subscription.
  b.nodeGone('a');
  void c.opened(SESSION, false);
  await bench.pass(100);
  assert.deepEqual(bench.take(), []);
  for (const node of [a, b, c]) node.close();
});

test('check:C9 a subscription without a listener waits for the node where a stream opens', async () => {
  const bench = new SubscriptionsBench();
  const [a, b, c] = [await bench.node('a'), await bench.node('b'), await bench.node('c')];
  a.made(resource());
  await bench.pass(50);
  bench.there.delete('a');
  a.close();
  for (const node of [b, c]) node.nodeGone('a');
  await bench.pass(100);
  assert.deepEqual(bench.take(), []);
  void c.opened(SESSION, true);
  await bench.pass(200);
  assert.deepEqual(bench.take(), []);
  bench.listening.add('c');
  await bench.pass(100);
  assert.deepEqual(bench.take(), ['c again counter://value']);
  // When its stream moves again, the client gets a hint that it may have missed updates, and nothing else.
  bench.listening.add('b');
  void b.opened(SESSION, true);
  await bench.pass(100);
  assert.deepEqual(bench.take(), ['b hint counter+counter://value']);
  void b.opened(SESSION, false);
  await bench.pass(100);
  assert.deepEqual(bench.take(), []);
  for (const node of [a, b, c]) node.close();
});

test('check:C9 a server that cannot be asked is asked again; one that refuses is not', async () => {
  const bench = new SubscriptionsBench();
  const [a, b] = [await bench.node('a'), await bench.node('b')];
  a.made(resource());
  await bench.pass(50);
  bench.there.delete('a');
  a.close();
  bench.listening.add('b');
  bench.answers = ['later', 'later', 'agreed'];
  b.nodeGone('a');
  await bench.pass(500);
  assert.deepEqual(bench.take(), ['b again counter://value']);
  await bench.pass(5_000);
  assert.deepEqual(bench.take(), ['b again counter://value', 'b again counter://value']);
  assert.equal(await bench.records(), 1);
  const c = await bench.node('c');
  bench.there.delete('b');
  b.close();
  bench.listening.add('c');
  bench.answers = ['refused'];
  c.nodeGone('b');
  await bench.pass(200);
  assert.deepEqual(bench.take(), ['c again counter://value', 'c hint counter+counter://value']);
  assert.equal(await bench.records(), 0);
  for (const node of [a, b, c]) node.close();
});

/** Node a, which held a subscription, is gone; its client listens at b, which receives changes late. */
async function ownerGone(bench: SubscriptionsBench) {
  const slow = new SlowHearing(bench.state);
  const [a, b] = [await bench.node('a'), await bench.node('b', slow)];
  a.made(resource());
  await bench.pass(50);
  bench.there.delete('a');
  a.close();
  bench.listening.add('b');
  return { slow, b };
}

for (const heard of [true, false]) {
  test(`check:C9 a node takes a subscription although the store did not answer, ${heard ? 'with' : 'without'} news of the record`, async () => {
    const bench = new SubscriptionsBench();
    const { slow, b } = await ownerGone(bench);
    slow.losesAnswer = true;
    if (!heard) slow.hold();
    b.nodeGone('a');
    await bench.pass(1_500);
    slow.release();
    await bench.pass(4_000);
    assert.deepEqual(bench.take(), ['b again counter://value']);
    // It is in the registry of b.
    b.givenUp(resource());
    await bench.pass(50);
    assert.equal(await bench.records(), 0);
    b.close();
  });
}

test('check:C9 a subscription that one node ended or renewed is in the registry of no other node', async () => {
  const bench = new SubscriptionsBench();
  const [a, b] = [await bench.node('a'), await bench.node('b')];
  a.made(resource());
  await bench.pass(50);
  b.givenUp(resource());
  await bench.pass(50);
  assert.deepEqual(bench.take(), ['a drop counter://value']);
  a.made(resource());
  await bench.pass(50);
  b.made(resource());
  await bench.pass(50);
  assert.deepEqual(bench.take(), ['a drop counter://value']);
  assert.equal(await bench.records(), 1);
  a.ended(SESSION);
  await bench.pass(50);
  assert.equal(await bench.records(), 1);
  b.ended(SESSION);
  await bench.pass(50);
  assert.equal(await bench.records(), 0);
  assert.deepEqual(bench.take(), []);
  for (const node of [a, b]) node.close();
});

test('check:C9 a session that ends while its node is gone leaves no record, and has at most 1000 subscriptions', async () => {
  const bench = new SubscriptionsBench();
  const [a, b] = [await bench.node('a'), await bench.node('b')];
  for (let at = 0; at < 1_000; at++) a.made(resource(`counter://${at}`));
  a.made(resource(`counter://${'x'.repeat(40_000)}`));
  await bench.pass(200);
  while ((await bench.records()) < 1_000) await bench.pass(50);
  assert.equal(await bench.records(), 1_000);
  for (const node of [a, b]) {
    const { code, message } = node.refusal(resource('counter://more'))!;
    assert.match(`${code} ${message}`, /^OVERLOADED No more than 1000 resources .* in one session/);
    assert.equal(node.refusal(resource('counter://7')), null);
    assert.equal(node.refusal({ ...resource('counter://more'), sessionId: 'another' }), null);
  }
  bench.there.delete('a');
  a.close();
  b.ended(SESSION);
  while ((await bench.records()) > 0) await bench.pass(50);
  for (const node of [a, b]) node.close();
});

test('check:C9 a late record of a renewed subscription does not take it from its node', async () => {
  const bench = new SubscriptionsBench();
  const slow = new SlowHearing(bench.state);
  const [a, b] = [await bench.node('a'), await bench.node('b', slow)];
  slow.hold();
  b.made(resource());
  await bench.pass(50);
  b.givenUp(resource());
  await bench.pass(50);
  b.made(resource());
  await bench.pass(50);
  slow.release();
  assert.deepEqual(bench.take(), []);
  // Node b receives the earlier record of node a after its own: only a may drop the subscription.
  slow.hold();
  a.made(resource('counter://other'));
  await bench.pass(50);
  b.made(resource('counter://other'));
  await bench.pass(50);
  slow.release();
  assert.deepEqual(bench.take(), ['a drop counter://other']);
  // Node a takes it again by subscribing later.
  a.made(resource('counter://other'));
  await bench.pass(50);
  assert.deepEqual(bench.take(), ['b drop counter://other']);
  assert.equal(await bench.records(), 2);
  for (const node of [a, b]) node.close();
});

test('check:C9 a session that ends before its subscriptions are known leaves nothing', async () => {
  const bench = new SubscriptionsBench();
  const slow = new SlowHearing(bench.state);
  const a = await bench.node('a', slow);
  slow.hold();
  a.made(resource());
  await bench.pass(50);
  assert.equal(await bench.records(), 1);
  a.ended(SESSION);
  await bench.pass(50);
  slow.release();
  await bench.pass(50);
  assert.equal(await bench.records(), 0);
  a.close();
});

test('check:C9 ending a subscription that no session has writes nothing', async () => {
  const bench = new SubscriptionsBench();
  const slow = new SlowHearing(bench.state);
  const [a, b] = [await bench.node('a'), await bench.node('b', slow)];
  for (let at = 0; at < 20; at++) b.givenUp(resource(`counter://${at}`));
  await bench.pass(100);
  assert.equal(slow.removals, 0);
  // Node a has the record, but node b has not received it.
  slow.hold();
  a.made(resource());
  await bench.pass(50);
  b.givenUp(resource());
  await bench.pass(50);
  assert.equal(slow.removals, 1);
  assert.equal(await bench.records(), 0);
  slow.release();
  for (const node of [a, b]) node.close();
});

test('check:C9 each node knows the count of a principal at other nodes, also after another node takes over', async () => {
  const bench = new SubscriptionsBench();
  const [a, b] = [await bench.node('a'), await bench.node('b')];
  const [anna, bert] = [ownerOf('agent:anna'), ownerOf('agent:bert')];
  for (let at = 0; at < 3; at++) a.made({ ...resource(`counter://${at}`), of: anna });
  a.made({ ...resource('counter://bert'), of: bert });
  a.made(resource('counter://of an earlier version'));
  await bench.pass(200);
  assert.deepEqual([a.countElsewhere(anna), b.countElsewhere(anna), b.countElsewhere(bert)], [0, 3, 1]);
  b.made({ ...resource('counter://0'), of: anna });
  a.givenUp(resource('counter://1'));
  await bench.pass(200);
  assert.deepEqual([a.countElsewhere(anna), b.countElsewhere(anna)], [1, 1]);
  // The subscriptions of the gone node a count until another node takes them over or their session ends.
  bench.there.delete('a');
  a.close();
  assert.equal(b.countElsewhere(anna), 1);
  bench.listening.add('b');
  b.nodeGone('a');
  await bench.pass(200);
  assert.deepEqual([b.countElsewhere(anna), b.countElsewhere(bert)], [0, 0]);
  const c = await bench.node('c');
  assert.deepEqual([c.countElsewhere(anna), c.countElsewhere(bert)], [2, 1]);
  b.ended(SESSION);
  await bench.pass(200);
  assert.deepEqual([c.countElsewhere(anna), c.countElsewhere(bert)], [0, 0]);
  for (const node of [b, c]) node.close();
});

for (const minutes of [5, 50, 80, 300]) {
  test(`fault:F28 a subscription that was given up while its node was away for ${minutes} minutes stays given up, and its mark expires after an hour`, async () => {
    const bench = new SubscriptionsBench();
    const store = new LossyStore(bench.clock);
    const view = store.view();
    const [a, b] = [await bench.node('a', store.view()), await bench.node('b', view)];
    b.made(resource());
    b.made(resource('counter://kept'));
    await bench.pass(50);
    const bucket = store.present.bucket('trunkline_subscriptions', { ttlMs: 30 * 24 * 3_600_000 });
    const [key] = (await bucket.keys()) as [string];
    bench.there.delete('b');
    view.away = true;
    view.hears = false;
    a.givenUp(resource());
    await bench.pass(50);
    assert.equal(await bucket.look(key), 'deleted');
    // The newest change is kept.
    a.made(resource('counter://other'));
    for (let passed = 0; passed < minutes; passed += 5) await bench.clock.advance(5 * 60_000);
    view.away = false;
    view.hears = true;
    await view.tellAgain();
    await bench.pass(5_000);
    assert.deepEqual(bench.take(), ['b drop counter://value']);
    assert.equal((await bucket.keys()).length, 2);
    assert.equal(await bucket.look(key), minutes < 60 ? 'deleted' : null);
    for (const node of [a, b]) node.close();
  });
}

test('check:C9 when the cluster has no room the next subscription is refused, and all existing ones are kept', async () => {
  const bench = new SubscriptionsBench();
  const [a, b] = [await bench.node('a', bench.state, 3), await bench.node('b', bench.state, 3)];
  const of = (sessionId: string): SharedSubscription => ({ ...resource(), sessionId });
  // The last one was asked for at the same moment.
  for (const session of ['s1', 's2']) a.made(of(session));
  for (const session of ['s3', 's4']) b.made(of(session));
  await bench.pass(100);
  assert.equal(await bench.records(), 4);
  for (const node of [a, b]) {
    assert.match(node.refusal(of('s5'))?.message ?? '', /^No more than 3 resources .* of the cluster: give up/);
    assert.equal(node.refusal(of('s1')), null);
  }
  bench.there.delete('b');
  b.close();
  bench.listening.add('a');
  a.nodeGone('b');
  await bench.pass(100);
  assert.equal(bench.take().length, 2);
  a.ended('s1');
  a.givenUp(of('s4'));
  await bench.pass(100);
  assert.equal(a.refusal(of('s5')), null);
  for (const node of [a, b]) node.close();
});

for (const first of ['hears of the new one', 'deletes the old one'] as const) {
  test(`check:C9 fault:F28 a subscription made at another node stays, though a node without the store gave it up and ${first} first`, async () => {
    const bench = new SubscriptionsBench();
    const store = new LossyStore(bench.clock);
    const view = store.view();
    const [a, b] = [await bench.node('a', view), await bench.node('b', store.view())];
    const bucket = store.present.bucket('trunkline_subscriptions', { ttlMs: 30 * 24 * 3_600_000 });
    const hear = (): Promise<void> => {
      view.hears = true;
      return view.tellAgain();
    };
    a.made(resource());
    await bench.pass(50);
    view.away = true;
    view.hears = false;
    a.givenUp(resource());
    await bench.pass(50);
    b.made(resource());
    await bench.pass(50);
    view.away = false;
    if (first === 'hears of the new one') await hear();
    await bench.pass(5_000);
    await hear();
    assert.deepEqual([bench.take(), (await bucket.keys()).length], [[], 1]);
    a.givenUp(resource());
    await bench.pass(50);
    assert.deepEqual([bench.take(), (await bucket.keys()).length], [['b drop counter://value'], 0]);
    for (const node of [a, b]) node.close();
  });
}

test('check:C9 a node can delete a subscription that it has just taken over before it receives its own record', async () => {
  const bench = new SubscriptionsBench();
  const { slow, b } = await ownerGone(bench);
  slow.hold();
  b.nodeGone('a');
  await bench.pass(50);
  b.givenUp(resource());
  await bench.pass(50);
  assert.deepEqual([bench.take(), await bench.records()], [['b again counter://value'], 0]);
  slow.release();
  b.close();
});
