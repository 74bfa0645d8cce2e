import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { LossyStore } from '../../../test/support/lossy-store.ts';
import { record, SessionRecordsBench } from '../../../test/support/session-records-bench.ts';

const SESSIONS = 'trunkline_sessions';

/** Two nodes that know the session s1, in a store that loses what it has. */
async function twoNodes() {
  const bench = new SessionRecordsBench();
  const store = new LossyStore(bench.clock);
  const views = { a: store.view(), b: store.view() };
  const [a, b] = [await bench.node('a', views.a), await bench.node('b', views.b)];
  b.put(record('s1'));
  await settled();
  /** What a node that starts now knows. */
  const kept = async () => {
    const all = await (await bench.node('late', store.view())).all();
    return all.map(({ id, logLevel }) => `${id} ${logLevel}`);
  };
  return { bench, store, views, a, b, kept };
}

/** In every way in which a store loses a record. */
for (const loss of ['it', 'everything'] as const) {
  const lose = (store: LossyStore): Promise<void> => (loss === 'it' ? store.lose(SESSIONS, 's1') : store.loseAll());

  test(`fault:F28 a session that ends while the store is away and loses ${loss} stays ended`, async () => {
    const { bench, store, views, a, b, kept } = await twoNodes();
    views.a.away = true;
    a.delete('s1');
    await settled();
    await lose(store);
    views.a.away = false;
    await views.a.tellAgain();
    await bench.pass(1_500);
    await views.b.tellAgain();
    await bench.pass(1_500);
    assert.deepEqual([await a.all(), await b.all(), await kept()], [[], [], []]);
    assert.equal(bench.heard.filter((text) => text === 'b s1 gone').length, 1);
    // After another loss no node writes it again.
    await lose(store);
    for (const view of [views.a, views.b]) await view.tellAgain();
    await bench.pass(1_500);
    assert.deepEqual(await kept(), []);
    await bench.close();
  });

  test(`fault:F28 a session whose end is being written when the store is seen to have lost ${loss} stays ended`, async () => {
    const { bench, store, views, a, b, kept } = await twoNodes();
    const writing = Promise.withResolvers<void>();
    views.a.writes = writing.promise;
    a.delete('s1');
    await settled();
    assert.equal(await a.get('s1'), null, 'the session ends at node a at once');
    await lose(store);
    await views.a.tellAgain();
    await settled();
    writing.reject(new Error('no answer'));
    views.a.writes = Promise.resolve();
    await bench.pass(1_500);
    await views.b.tellAgain();
    await bench.pass(1_500);
    assert.deepEqual([await a.all(), await b.all(), await kept()], [[], [], []]);
    await bench.close();
  });

  test(`fault:F28 a session that ends elsewhere while a node rewrites it, after the store lost ${loss}, stays ended`, async () => {
    const { bench, store, views, a, b, kept } = await twoNodes();
    await lose(store);
    const writing = Promise.withResolvers<void>();
    views.a.writes = writing.promise;
    await views.a.tellAgain();
    await settled();
    b.delete('s1');
    await settled();
    writing.resolve();
    await bench.pass(1_500);
    await views.b.tellAgain();
    await settled();
    assert.deepEqual([await a.all(), await b.all(), await kept()], [[], [], []]);
    assert.ok(bench.heard.includes('a s1 gone'));
    await bench.close();
  });

  test(`fault:F28 a change of a session while another node rewrites it, after the store lost ${loss}, stays`, async () => {
    const { bench, store, views, a, b, kept } = await twoNodes();
    await lose(store);
    const writing = Promise.withResolvers<void>();
    views.a.writes = writing.promise;
    await views.a.tellAgain();
    await settled();
    b.put(record('s1', { logLevel: 'error' }));
    await settled();
    writing.resolve();
    await bench.pass(1_500);
    await views.b.tellAgain();
    await settled();
    assert.deepEqual(await kept(), ['s1 error']);
    assert.deepEqual([(await a.get('s1'))?.logLevel, (await b.get('s1'))?.logLevel], ['error', 'error']);
    await bench.close();
  });

  test(`fault:F28 a session is written again once, by the first node, after the store has lost ${loss}`, async () => {
    const { bench, store, views, a, b, kept } = await twoNodes();
    await lose(store);
    await Promise.all([views.a.tellAgain(), views.b.tellAgain()]);
    await bench.pass(1_500);
    assert.deepEqual(await kept(), ['s1 null']);
    const bucket = store.present.bucket(SESSIONS, { ttlMs: 0 });
    const before = (await bucket.get('s1'))!.revision;
    for (const view of [views.a, views.b]) await view.tellAgain();
    await bench.pass(5_000);
    assert.equal((await bucket.get('s1'))!.revision, before);
    assert.deepEqual(
      bench.heard.filter((text) => text.endsWith('gone')),
      [],
    );
    a.delete('s1');
    await settled();
    assert.deepEqual([await a.all(), await b.all()], [[], []]);
    await bench.close();
  });
}

test('a pending write of a node does not restore a session that another node has ended', async () => {
  const { bench, views, a, b, kept } = await twoNodes();
  const writing = Promise.withResolvers<void>();
  views.a.writes = writing.promise;
  a.put(record('s1', { logLevel: 'error' }));
  await settled();
  views.a.hears = false;
  b.delete('s1');
  await settled();
  writing.resolve();
  await bench.pass(1_500);
  assert.deepEqual([await a.all(), await b.all(), await kept()], [[], [], []]);
  assert.ok(bench.heard.includes('a s1 gone'), 'node a notices the end by then');
  await bench.close();
});

test('fault:F28 a record written again by a node that knew less does not replace what others know', async () => {
  const { bench, store, views, a, b, kept } = await twoNodes();
  a.put(record('s1', { initialized: true, logLevel: 'warning', lastSeenAt: 5 }));
  await settled();
  await store.loseAll();
  const bucket = await store.view().bucket(SESSIONS, { ttlMs: 0 });
  assert.notEqual(await bucket.restore('s1', Buffer.from(JSON.stringify(record('s1')))), null);
  for (const view of [views.a, views.b]) await view.tellAgain();
  await bench.pass(1_500);
  assert.deepEqual(await kept(), ['s1 warning']);
  for (const node of [a, b]) assert.equal((await node.get('s1'))?.initialized, true);
  const { heard } = bench;
  assert.ok(!heard.slice(heard.indexOf('a s1 warning')).some((text) => text.endsWith('s1 null')), heard.join());
  await bench.close();
});
