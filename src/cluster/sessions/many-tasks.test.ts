import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { agent, client } from '../../../test/support/gateway-bench.ts';
import { LossyStore } from '../../../test/support/lossy-store.ts';
import { ADA, ANSWER, newTask } from '../../../test/support/new-task.ts';
import { TaskTablesBench } from '../../../test/support/task-tables-bench.ts';
import type { TaskTable } from '../../gateway/tasks/task-table.ts';
import type { TaskRecord, TaskRecords } from '../../model/ports.ts';

const MOST = 4;
const DAY_MS = 24 * 3_600_000;
const BOB = client('stateful', { principal: agent('bob', 's') }).principal.id;
const CY = client('stateful', { principal: agent('cy', 's') }).principal.id;
const ENDED = { status: 'completed', answer: ANSWER } as const;

/** Two nodes, each of which caches at most four tasks of the other, unless a test sets another limit. */
function twoNodes(maxTasks = MOST) {
  const clock = new FakeClock();
  const store = new LossyStore(clock);
  const bench = new TaskTablesBench(clock);
  const views = { a: store.view(), b: store.view() };
  const node = (state = store.view(), own?: TaskRecords): TaskTable =>
    bench.node({ state, maxTasks, ...(own && { own }) });
  const ids = (table: TaskTable): string[] => [...table.all()].map(({ taskId }) => taskId);
  const stored = async () => (await store.present.bucket('trunkline_tasks', { ttlMs: 0 }).keys()).length;
  /** Afterwards the nodes know the counts of each other. */
  const publish = async (): Promise<void> => {
    for (let passed = 0; passed < 31_000; passed += 1_000) {
      await clock.advance(1_000);
      await settled();
    }
  };
  const dispose = () => bench.dispose();
  return { clock, views, store, node, a: node(views.a), b: node(views.b), ids, stored, publish, dispose };
}

/** The disk of a node, which survives it. */
function onDisk() {
  const disk = new Map<string, TaskRecord>();
  const own: TaskRecords = {
    load: () => [...disk.values()],
    put: (record) => void disk.set(record.key, record),
    delete: (key) => void disk.delete(key),
  };
  return { disk, own };
}

test('check:C9 a node forgets tasks of others, which stay in the store and at their node, and reads them again', async () => {
  const { a, b, ids, stored, dispose } = twoNodes();
  const records = Array.from({ length: 7 }, (_, at) => a.add(newTask(`t${at}`, at < 5 ? ENDED : {})));
  await settled();
  assert.deepEqual(ids(b), ['t3', 't4', 't5', 't6']);
  assert.equal(ids(a).length, 7);
  assert.equal(await stored(), 7);
  assert.equal(b.find('s', 't0', ADA), null);
  await b.read({ server: 's', taskId: 't0' });
  assert.deepEqual(b.find('s', 't0', ADA), records[0]);
  // A node changes a task that it had forgotten for all nodes.
  await b.read({ server: 's', taskId: 't1' });
  b.update(b.find('s', 't1', ADA)!, { pollIntervalMs: 5 });
  await settled();
  assert.equal(a.get(records[1]!.key)?.pollIntervalMs, 5);
  b.delete(b.find('s', 't0', ADA)!);
  await settled();
  assert.equal(a.get(records[0]!.key), null);
  await dispose();
});

test('a node forgets long answers of other nodes too, and the store and their node keep them', async () => {
  const { a, b, ids, stored, dispose } = twoNodes(20);
  const body = Buffer.alloc(10_000);
  for (let at = 10; at < 30; at++) a.add(newTask(`t${at}`, { ...ENDED, answer: { ...ANSWER, body } }));
  await settled();
  assert.equal(ids(a).length, 20);
  assert.equal(await stored(), 20);
  assert.equal(ids(b).length, 13);
  await dispose();
});

test('the task limit grows with the nodes; no task may begin while the cluster has that many unfinished ones', async () => {
  const { clock, a, b, node, dispose } = twoNodes();
  for (let at = 0; at < 6; at++) a.add(newTask(`a${at}`));
  await settled();
  assert.equal(b.refusal(CY), null);
  for (let at = 0; at < 2; at++) b.add(newTask(`b${at}`, { principal: BOB }));
  await clock.advance(30_000);
  await settled();
  assert.equal(a.refusal(CY)?.code, 'OVERLOADED');
  assert.equal(b.refusal(CY)?.code, 'OVERLOADED');
  node();
  assert.equal(b.refusal(CY), null);
  await dispose();
});

test('beyond the limit of all tasks a node deletes only as many tasks as its own need', async () => {
  const { clock, a, b, stored, dispose } = twoNodes();
  for (let at = 0; at < 8; at++) a.add(newTask(`a${at}`, ENDED));
  await settled();
  await clock.advance(30_000);
  await settled();
  assert.equal(await stored(), 8);
  b.add(newTask('b0', ENDED));
  await settled();
  assert.ok((await stored()) >= 7);
  assert.notEqual(b.find('s', 'b0', ADA), null);
  await dispose();
});

test('the counts of another node delete neither a task that has just ended, nor a long answer for a short one', async () => {
  const { a, b, ids, publish, dispose } = twoNodes(600);
  const body = Buffer.alloc(1024 * 1024);
  for (let at = 0; at < 17; at++) a.add(newTask(`a${at}`, { ...ENDED, answer: { ...ANSWER, body } }));
  const own = b.add(newTask('own'));
  for (let at = 0; at < 700; at++) a.add(newTask(`x${at}`, { principal: BOB }));
  await publish();
  const long = b.add(newTask('long', { ...ENDED, answer: { ...ANSWER, body } }));
  b.update(own, ENDED);
  assert.equal(b.get(own.key)?.status, 'completed');
  assert.notEqual(b.get(long.key), null);
  await settled();
  assert.ok(ids(a).includes('own'));
  await dispose();
});

test('a node publishes its counts repeatedly, so that other nodes replace an earlier count', async () => {
  const { a, b, publish, dispose } = twoNodes(600);
  const records = Array.from({ length: 1_000 }, (_, at) => a.add(newTask(`a${at}`, { ttlMs: 3_600_000 })));
  await publish();
  assert.equal(b.refusal(ADA.principal.id)?.code, 'OVERLOADED');
  for (const record of records) a.delete(record);
  await publish();
  assert.equal(b.refusal(ADA.principal.id), null);
  await dispose();
});

test('any node deletes a task a minute after its ttl is over, also a task of a node that is gone', async () => {
  const { clock, a, b, stored, dispose } = twoNodes();
  a.add(newTask('t', { ttlMs: 10_000 }));
  await settled();
  a.close();
  await clock.advance(10_000);
  assert.notEqual(b.find('s', 't', ADA), null);
  await clock.advance(60_000);
  assert.equal(b.find('s', 't', ADA), null);
  await settled();
  assert.equal(await stored(), 0);
  await dispose();
});

test('a task without a ttl that clients poll at another node survives a restart of the node that began it', async () => {
  const { own } = onDisk();
  const { clock, store, b, node, stored, dispose } = twoNodes(20);
  const before = node(store.view(), own);
  const record = before.add(newTask('t', { ttlMs: null }));
  for (let day = 0; day < 8; day++) {
    await settled();
    b.update(b.get(record.key)!, { status: 'working' });
    await clock.advance(DAY_MS);
  }
  await settled();
  const after = node(store.view(), own);
  await settled();
  assert.deepEqual([after.get(record.key)?.taskId, await stored()], ['t', 1]);
  await dispose();
});

test('a node forgets a task that clients poll only at another node, and that node keeps it', async () => {
  const { clock, a, b, dispose } = twoNodes();
  const record = a.add(newTask('t', { ttlMs: null }));
  await settled();
  await clock.advance(DAY_MS / 2);
  a.update(record, { status: 'working' });
  await clock.advance(6.6 * DAY_MS);
  await settled();
  assert.equal(b.get(record.key), null);
  assert.notEqual(a.get(record.key), null);
  await dispose();
});

test('the tasks of other nodes are not on the disk of a node; its own are compared with the store when it starts', async () => {
  const { disk, own } = onDisk();
  const { store, a, node, ids, clock, stored, dispose } = twoNodes(20);
  const before = node(store.view(), own);
  const kept = ['kept', 'deleted', 'ended', 'lost'].map((id) => before.add(newTask(id)));
  await settled();
  const theirs = a.add(newTask('theirs'));
  await settled();
  before.update(before.get(theirs.key)!, { pollIntervalMs: 7 });
  await settled();
  assert.deepEqual([...disk.values()].map(({ taskId }) => taskId).sort(), ['deleted', 'ended', 'kept', 'lost']);
  // Changes while the node is down.
  const there = { ...disk.get(kept[2]!.key)! };
  a.delete(kept[1]!);
  a.update(a.get(kept[2]!.key)!, ENDED);
  await settled();
  await store.lose('trunkline_tasks', kept[3]!.key);
  disk.set(there.key, there);
  disk.set(kept[1]!.key, kept[1]!);
  const after = node(store.view(), own);
  await clock.advance(1_500);
  await settled();
  assert.deepEqual(ids(after).sort(), ['ended', 'kept', 'lost', 'theirs']);
  assert.equal(after.get(kept[2]!.key)?.status, 'completed');
  assert.equal(await stored(), 4);
  await dispose();
});

test('every node counts all tasks of a caller for its limit, also those that the node has not cached', async () => {
  const { a, b, publish, dispose } = twoNodes(600);
  for (let at = 0; at < 1_000; at++) a.add(newTask(`a${at}`));
  await publish();
  assert.equal([...b.all()].length, 600);
  assert.equal(b.refusal(ADA.principal.id)?.code, 'OVERLOADED');
  assert.equal(b.refusal(BOB), null);
  await dispose();
});

test('a task that is watched at a node stays in its cache', async () => {
  const { a, b, ids, dispose } = twoNodes();
  const record = a.add(newTask('waited'));
  await settled();
  const heard: string[] = [];
  const unwatch = b.watch(record.key, ({ status }) => heard.push(status));
  for (let at = 0; at < 5; at++) a.add(newTask(`t${at}`));
  await settled();
  assert.ok(ids(b).includes('waited'));
  a.update(record, ENDED);
  await settled();
  assert.deepEqual(heard, ['completed']);
  unwatch();
  for (let at = 5; at < 10; at++) a.add(newTask(`t${at}`));
  await settled();
  assert.ok(!ids(b).includes('waited'));
  await dispose();
});

test('while the store is away, reading a task that is not cached fails with NOT_SENT', async () => {
  const { views, a, b, dispose } = twoNodes();
  for (let at = 0; at < 6; at++) a.add(newTask(`t${at}`));
  await settled();
  views.b.away = true;
  await assert.rejects(b.read({ server: 's', taskId: 't0' }), { code: 'NOT_SENT' });
  views.b.away = false;
  await dispose();
});

test('fault:F28 after an outage a node keeps the tasks that it began, and of others those that are listed', async () => {
  const { clock, views, a, b, ids, stored, dispose } = twoNodes();
  for (let at = 0; at < 6; at++) a.add(newTask(`a${at}`));
  await settled();
  const known = ids(b);
  for (let at = 0; at < 6; at++) b.add(newTask(`b${at}`));
  await settled();
  await views.a.tellAgain();
  await views.b.tellAgain();
  await clock.advance(1_500);
  await settled();
  assert.deepEqual(ids(a).slice(0, 6), ['a0', 'a1', 'a2', 'a3', 'a4', 'a5']);
  assert.ok(known.every((id) => !ids(b).includes(id)));
  assert.equal(await stored(), 12);
  await dispose();
});
