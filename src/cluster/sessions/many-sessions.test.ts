import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { LossyStore, type StoreView } from '../../../test/support/lossy-store.ts';
import { record, SessionRecordsBench } from '../../../test/support/session-records-bench.ts';
import { Logger } from '../../telemetry/logger.ts';

const AT_HAND = 4;
const MINUTE = 60_000;

/** Two nodes, the first with more sessions than the other node caches. */
async function manySessions() {
  const bench = new SessionRecordsBench();
  const store = new LossyStore(bench.clock);
  const views: Record<string, StoreView> = {};
  const node = (name: string) => bench.node(name, (views[name] = store.view()), Logger.silent(), AT_HAND);
  const [a, b] = [await node('a'), await node('b')];
  for (let at = 0; at < 10; at++) a.put(record(`a${at}`, { principal: at < 7 ? 'ada' : 'bob' }));
  for (let at = 0; at < 3; at++) b.put(record(`b${at}`, { principal: 'ada' }));
  await settled();
  const gone = () => bench.heard.filter((text) => text.endsWith('gone')).sort();
  const ids = async (records: typeof a) => (await records.all()).map(({ id }) => id).sort();
  return { bench, store, views, node, a, b, gone, ids };
}

test('check:C9 a node caches its own sessions and those written last, and reads the others from the store', async () => {
  const { bench, a, b, ids } = await manySessions();
  assert.deepEqual(await ids(b), ['a6', 'a7', 'a8', 'a9', 'b0', 'b1', 'b2']);
  assert.equal((await ids(a)).length, 13);
  assert.equal((await b.get('a0'))?.principal, 'ada');
  a.put(record('a1', { principal: 'ada', logLevel: 'error' }));
  await settled();
  assert.ok((await ids(b)).includes('a1'), 'it was written last');
  assert.ok(bench.heard.includes('b a1 error'));
  await bench.close();
});

test('check:C9 a node reports the end of a session that it has not cached', async () => {
  const { bench, a, b, gone } = await manySessions();
  a.delete('a0');
  await settled();
  assert.deepEqual(gone(), ['a a0 gone', 'b a0 gone']);
  b.put(record('a0'));
  await bench.pass(4_000);
  const looked = b.get('a0');
  await bench.pass(1_000);
  assert.equal(await looked, null);
  await bench.close();
});

test('check:C9 nodes that know only a part of the sessions count all of them', async () => {
  const { bench, b, node } = await manySessions();
  const late = await node('late');
  assert.ok(late.count(null) < 13);
  await bench.pass(31_000);
  const counts = [b, late].map((records) => [null, 'ada', 'bob', 'none'].map((principal) => records.count(principal)));
  assert.deepEqual(counts, Array(2).fill([13, 10, 3, 0]));
  await bench.close();
});

test('check:C9 a session whose node is gone is counted by the node where it continues', async () => {
  const { bench, a, b, node } = await manySessions();
  const closing = a.close();
  await bench.pass(4_000);
  await closing;
  bench.leave('a');
  const late = await node('late');
  for (let at = 0; at < 10; at++) late.put(record(`a${at}`, { principal: 'ada', lastSeenAt: 2 }));
  await bench.pass(31_000);
  assert.equal(b.count(null), 13);
  await bench.close();
});

test('fault:F28 after an outage a node keeps its own sessions, and learns which of them ended', async () => {
  const { bench, views, a, b, gone, ids } = await manySessions();
  const { a: view } = views;
  view!.hears = false;
  b.delete('a0');
  for (let at = 0; at < 9; at++) b.put(record('b0', { lastSeenAt: at + 2 }));
  for (let at = 0; at < 9; at++) b.put(record(`c${at}`));
  await settled();
  view!.hears = true;
  await view!.tellAgain();
  await bench.pass(200);
  assert.deepEqual(gone(), ['a a0 gone', 'b a0 gone']);
  const known = await ids(a);
  for (let at = 1; at < 10; at++) assert.ok(known.includes(`a${at}`), `a${at}`);
  assert.equal((await a.get('c0'))?.id, 'c0');
  assert.equal(known.length, 9 + AT_HAND);
  await bench.close();
});

test('fault:F28 if the store loses many sessions, the nodes that count them write them again', async () => {
  const { bench, store, views, node, gone } = await manySessions();
  await store.loseAll();
  for (const view of [views['b'], views['a']]) await view!.tellAgain();
  await bench.pass(2_000);
  assert.deepEqual(gone(), []);
  const late = await node('late');
  await bench.pass(4_000);
  for (const id of ['a0', 'a5', 'a9', 'b0', 'b2']) assert.equal((await late.get(id))?.id, id);
  await bench.close();
});

test('every stored session is found, and one node looks through all of them once an hour', async () => {
  const { bench, b } = await manySessions();
  const found = async (wanted: string): Promise<number> => {
    let seen = 0;
    await b.visit(({ id }) => ++seen > 0 && id === wanted);
    return seen;
  };
  assert.ok((await found('a0')) <= 13);
  assert.equal(await found('none'), 13);
  for (let at = 3; at < 6; at++) b.put(record(`b${at}`));
  await settled();
  await bench.clock.advance(61 * MINUTE);
  await settled();
  const reviewed = bench.heard.filter((text) => text.endsWith('reviewed'));
  assert.equal(reviewed.length, 16);
  assert.equal(new Set(reviewed.map((text) => text.split(' ')[0])).size, 1);
  await bench.close();
});
