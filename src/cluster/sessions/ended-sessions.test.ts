import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { LossyStore } from '../../../test/support/lossy-store.ts';
import { record, SessionRecordsBench } from '../../../test/support/session-records-bench.ts';

const MINUTE = 60_000;
const SESSIONS = 'trunkline_sessions';

/** Two nodes; `b` opened s1 to s3 and `a` knows them. */
async function twoNodes() {
  const bench = new SessionRecordsBench();
  const store = new LossyStore(bench.clock);
  const views = { a: store.view(), b: store.view() };
  const [a, b] = [await bench.node('a', views.a), await bench.node('b', views.b)];
  for (const id of ['s1', 's2', 's3']) b.put(record(id));
  await settled();
  const bucket = store.present.bucket(SESSIONS, { ttlMs: 8 * 24 * 60 * MINUTE });
  const looked = async () => {
    const found = await Promise.all(['s1', 's2', 's3'].map((id) => bucket.look(id)));
    return found.map((there) => (there === null ? 'nothing' : there === 'deleted' ? 'mark' : 'session'));
  };
  /** Advances in steps of five minutes: a timer may only be set after an earlier one has fired. */
  const minutes = async (count: number) => {
    for (let passed = 0; passed < count; passed += 5) {
      await bench.clock.advance(5 * MINUTE);
      await settled();
    }
  };
  return { bench, store, views, a, b, looked, minutes };
}

test('check:C9 the mark of an ended session is removed after an hour, whichever node ended it', async () => {
  const { bench, a, b, looked, minutes } = await twoNodes();
  a.delete('s1');
  b.delete('s2');
  await settled();
  await minutes(55);
  assert.deepEqual(await looked(), ['mark', 'mark', 'session']);
  b.put(record('s3', { lastSeenAt: 2 }));
  await settled();
  await minutes(20);
  assert.deepEqual(await looked(), ['nothing', 'nothing', 'session']);
  await bench.close();
});

/** `b` has no connection to the store for so many minutes, and `a` ends s1 meanwhile. */
async function away(after: number) {
  const nodes = await twoNodes();
  const { bench, views, a } = nodes;
  views.b.away = true;
  views.b.hears = false;
  a.delete('s1');
  await settled();
  // The newest change is kept.
  a.put(record('s4'));
  await settled();
  bench.leave('b');
  await nodes.minutes(after);
  views.b.away = false;
  views.b.hears = true;
  await views.b.tellAgain();
  await bench.pass(1_500);
  const ids = async (records: typeof a) => (await records.all()).map(({ id }) => id).sort();
  return { ...nodes, ids, reported: bench.heard.filter((text) => text.startsWith('b ') && text.endsWith('gone')) };
}

for (const minutes of [5, 50, 80, 300]) {
  test(`fault:F28 a session that ended while its node was away for ${minutes} minutes stays ended`, async () => {
    const { bench, a, b, ids, looked, reported } = await away(minutes);
    assert.deepEqual(reported, ['b s1 gone']);
    assert.deepEqual([await ids(a), await ids(b)], Array(2).fill(['s2', 's3', 's4']));
    assert.deepEqual(await looked(), [minutes < 60 ? 'mark' : 'nothing', 'session', 'session']);
    await bench.close();
  });
}

test('fault:F28 the sessions of a store that lost everything are written again, even after hours', async () => {
  const { bench, store, views, b, minutes } = await twoNodes();
  for (const view of [views.a, views.b]) view.away = true;
  await minutes(300);
  await store.loseAll();
  for (const view of [views.a, views.b]) view.away = false;
  for (const view of [views.a, views.b]) await view.tellAgain();
  await bench.pass(1_500);
  assert.deepEqual((await b.all()).map(({ id }) => id).sort(), ['s1', 's2', 's3']);
  const late = await bench.node('late', store.view());
  assert.equal((await late.all()).length, 3);
  await bench.close();
});
