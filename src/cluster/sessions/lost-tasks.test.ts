import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { LossyStore, type StoreView } from '../../../test/support/lossy-store.ts';
import { ANSWER, newTask } from '../../../test/support/new-task.ts';
import { TaskTablesBench } from '../../../test/support/task-tables-bench.ts';
import type { TaskTable } from '../../gateway/tasks/task-table.ts';

const TASKS = 'trunkline_tasks';
const MINUTE = 60_000;

/** Two nodes that know the tasks t1 to t3, in a store that can lose them. */
async function twoNodes(ttlMs = MINUTE) {
  const clock = new FakeClock();
  const store = new LossyStore(clock);
  const bench = new TaskTablesBench(clock);
  const node = (state: StoreView): TaskTable => bench.node({ state });
  const views = { a: store.view(), b: store.view() };
  const [a, b] = [node(views.a), node(views.b)];
  const tasks = ['t1', 't2', 't3'].map((id) => a.add(newTask(id, { ttlMs })));
  await settled();
  const late = async (): Promise<TaskTable> => {
    const table = node(store.view());
    await settled();
    return table;
  };
  const dispose = () => bench.dispose();
  return { clock, store, views, a, b, tasks, late, dispose, unseen: bench.unseen };
}

/** Node a writes the first task, which the store lost, again. The write is delayed until the returned function runs. */
async function writingAgain(nodes: Awaited<ReturnType<typeof twoNodes>>) {
  const { store, views, tasks } = nodes;
  await store.lose(TASKS, tasks[0]!.key);
  const writing = Promise.withResolvers<void>();
  views.a.writes = writing.promise;
  await views.a.tellAgain();
  await settled();
  return async (): Promise<void> => {
    writing.resolve();
    await settled();
  };
}

test('fault:F28 only the tasks that the store has lost are written again', async () => {
  const nodes = await twoNodes();
  const { clock, store, views, tasks, late, dispose } = nodes;
  const bucket = store.present.bucket(TASKS, { ttlMs: 0 });
  const revisions = async () => Promise.all(tasks.map(async ({ key }) => (await bucket.get(key))?.revision));
  const before = await revisions();
  await store.lose(TASKS, tasks[0]!.key);
  for (const view of [views.a, views.b]) await view.tellAgain();
  await clock.advance(1_500);
  const after = await revisions();
  assert.deepEqual(after.slice(1), before.slice(1));
  assert.equal((await late()).get(tasks[0]!.key)?.taskId, 't1');
  await dispose();
});

test('fault:F28 a node that writes a lost task again does not overwrite the newer state of another node', async () => {
  const nodes = await twoNodes();
  const { a, b, tasks, late, dispose } = nodes;
  const land = await writingAgain(nodes);
  b.update(tasks[0]!, { status: 'input_required' });
  await settled();
  await land();
  for (const node of [a, b, await late()]) assert.equal(node.get(tasks[0]!.key)?.status, 'input_required');
  await dispose();
});

test('fault:F28 a lost task that another node drops while it is written again does not return', async () => {
  const nodes = await twoNodes();
  const { a, b, tasks, late, dispose } = nodes;
  const land = await writingAgain(nodes);
  b.delete(tasks[0]!);
  await settled();
  await land();
  for (const node of [a, b, await late()]) assert.equal(node.get(tasks[0]!.key), null);
  await dispose();
});

test('a concurrent write does not restore a task that another node drops', async () => {
  const { views, a, b, tasks, late, dispose } = await twoNodes();
  const writing = Promise.withResolvers<void>();
  views.a.writes = writing.promise;
  a.update(tasks[0]!, { status: 'input_required' });
  await settled();
  b.delete(tasks[0]!);
  await settled();
  writing.resolve();
  await settled();
  for (const node of [a, b, await late()]) assert.equal(node.get(tasks[0]!.key), null);
  await dispose();
});

test('fault:F28 after a node wrote an old state of a lost task again, a node with a newer state updates it, once', async () => {
  const { clock, store, views, a, b, tasks, late, dispose } = await twoNodes();
  const { key } = tasks[0]!;
  views.b.hears = false;
  a.update(tasks[0]!, { status: 'completed', description: Buffer.from('{"status":"completed"}'), answer: ANSWER });
  a.sessionEnded(tasks[0]!.sessionId!);
  await settled();
  await store.loseAll();
  await views.b.tellAgain();
  await settled();
  const bucket = store.present.bucket(TASKS, { ttlMs: 0 });
  assert.equal((await bucket.get(key))?.revision !== undefined, true);
  await views.a.tellAgain();
  await clock.advance(1_500);
  await views.b.tellAgain();
  for (const node of [a, b, await late()]) {
    const { status, answer, sessionId, description } = node.get(key)!;
    assert.deepEqual(
      [status, answer, sessionId, description.toString()],
      ['completed', ANSWER, null, '{"status":"completed"}'],
    );
  }
  const { revision } = (await bucket.get(key))!;
  for (const view of [views.a, views.b]) await view.tellAgain();
  await clock.advance(5_000);
  assert.equal((await bucket.get(key))?.revision, revision);
  await dispose();
});

for (const minutes of [5, 50, 80, 300]) {
  test(`fault:F28 a task that was dropped while a node was away for ${minutes} minutes stays dropped, and its tombstone is deleted after an hour`, async () => {
    const { clock, store, unseen, views, a, b, tasks, dispose } = await twoNodes(24 * 60 * MINUTE);
    const { key } = tasks[0]!;
    const bucket = store.present.bucket(TASKS, { ttlMs: 8 * 24 * 60 * MINUTE });
    unseen.add(b);
    views.b.away = true;
    views.b.hears = false;
    a.delete(tasks[0]!);
    await settled();
    assert.equal(await bucket.look(key), 'deleted');
    // The newest change is kept.
    a.add(newTask('t4'));
    await settled();
    for (let passed = 0; passed < minutes; passed += 5) await clock.advance(5 * MINUTE);
    views.b.away = false;
    views.b.hears = true;
    await views.b.tellAgain();
    await clock.advance(5_000);
    assert.deepEqual([a.get(key), b.get(key)], [null, null]);
    assert.equal(b.get(tasks[1]!.key)?.taskId, 't2');
    assert.equal(await bucket.look(key), minutes < 60 ? 'deleted' : null);
    await dispose();
  });
}
