import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { NO_RECORDS } from '../../../test/support/gateway-bench.ts';
import { ADA, ANSWER, newTask, UNHEARD } from '../../../test/support/new-task.ts';
import { openedLate } from '../../../test/support/opened-late.ts';
import { TaskTablesBench } from '../../../test/support/task-tables-bench.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import { Sealer } from '../../gateway/sealer.ts';
import type { TaskEvents, TaskTable } from '../../gateway/tasks/task-table.ts';
import type { TaskRecords } from '../../model/ports.ts';
import { sealingOf } from '../../model/sealing.ts';

const OLD = Buffer.alloc(32, 7);
const NEW = Buffer.alloc(32, 8);

class Nodes {
  readonly clock = new FakeClock();
  state = new MemorySharedState(this.clock);
  readonly #bench = new TaskTablesBench(this.clock);

  node(own: TaskRecords = NO_RECORDS, keys = [OLD], events = UNHEARD): TaskTable {
    const state = {
      bucket: (name: string, options: { ttlMs: number }) =>
        openedLate(name, async () => this.state.bucket(name, options)),
    };
    const sealing = sealingOf(keys, (key) => new Sealer(key));
    return this.#bench.node({ state, own, sealing, events });
  }

  async dispose(): Promise<void> {
    await this.#bench.dispose();
  }
}

test('S2.29 a task that one node began is known to all, and to nodes that join later', async () => {
  const nodes = new Nodes();
  const reported: string[] = [];
  const reporting = (node: string): TaskEvents => ({
    ...UNHEARD,
    changed: ({ status }) => reported.push(`${node} ${status}`),
  });
  const [a, b] = [nodes.node(NO_RECORDS, [OLD], reporting('a')), nodes.node(NO_RECORDS, [OLD], reporting('b'))];
  const record = a.add(newTask('t1'));
  await settled();
  assert.deepEqual(b.find('s', 't1', ADA), record);
  // A change at any node reaches all nodes and wakes the waiters there; only the node of the change reports it.
  const woken: string[] = [];
  a.watch(record.key, ({ status }) => woken.push(`a ${status}`));
  b.update(record, { status: 'completed', description: Buffer.from('{"status":"completed"}'), answer: ANSWER });
  await settled();
  assert.deepEqual(a.get(record.key), b.get(record.key));
  assert.deepEqual(a.get(record.key)?.answer, ANSWER);
  assert.deepEqual(woken, ['a completed']);
  assert.deepEqual(reported, ['b completed']);
  const late = nodes.node();
  await settled();
  assert.equal(late.get(record.key)?.status, 'completed');
  late.delete(record);
  await settled();
  assert.equal(a.get(record.key), null);
  assert.equal(b.get(record.key), null);
  await nodes.dispose();
});

test('a task that has ended stays ended when another node updates an older state of it', async () => {
  const nodes = new Nodes();
  const [a, b] = [nodes.node(), nodes.node()];
  const record = a.add(newTask('t1'));
  await settled();
  a.update(record, { status: 'cancelled' });
  b.update(record, { pollIntervalMs: 5 });
  await settled();
  assert.equal(a.get(record.key)?.status, 'cancelled');
  await nodes.dispose();
});

test('a node that does not know how a task ended cannot reopen it', async () => {
  const nodes = new Nodes();
  const [a, b] = [nodes.node(), nodes.node()];
  const record = a.add(newTask('t1'));
  await settled();
  // Both at once: the change of node a arrives first, and node b has not received it.
  a.update(record, { status: 'completed', description: Buffer.from('{"status":"completed"}'), answer: ANSWER });
  b.sessionEnded(ADA.sessionId!);
  await settled();
  const late = nodes.node();
  await settled();
  for (const node of [a, b, late]) {
    const { status, answer, sessionId, description } = node.get(record.key)!;
    assert.deepEqual(
      [status, answer, sessionId, description.toString()],
      ['completed', ANSWER, null, '{"status":"completed"}'],
    );
  }
  await nodes.dispose();
});

test('answers of callers are not readable in the store; a very long one stays at its node', async () => {
  const nodes = new Nodes();
  const [a, b] = [nodes.node(), nodes.node()];
  const short = a.add(newTask('short', { status: 'completed', answer: ANSWER }));
  const body = Buffer.from(`{"content":[],"text":"${'x'.repeat(300_000)}"}`);
  const long = a.add(newTask('long', { status: 'completed', answer: { ...ANSWER, body } }));
  await settled();
  const bucket = nodes.state.bucket('trunkline_tasks', { ttlMs: 0 });
  assert.equal((await bucket.keys()).length, 2);
  for (const key of await bucket.keys()) assert.ok(!(await bucket.get(key))!.value.includes('s3cr3t'));
  assert.deepEqual(b.get(short.key)?.answer, ANSWER);
  assert.equal(b.get(long.key)?.status, 'completed');
  assert.equal(b.get(long.key)?.answer, null);
  assert.equal(a.get(long.key)?.answer?.body.length, body.length);
  await nodes.dispose();
});

test('a task of a session on a pipe of its node is not known to other nodes', async () => {
  const nodes = new Nodes();
  const [a, b] = [nodes.node(), nodes.node()];
  const record = a.add(newTask('t1', { passing: true }));
  await settled();
  assert.equal(b.get(record.key), null);
  await nodes.dispose();
});

test('a task is found moments before its record arrives; the wait for an unknown one is short', async () => {
  const nodes = new Nodes();
  const [a, b] = [nodes.node(), nodes.node()];
  const looking = b.lookUp(
    () => b.find('s', 't1', ADA),
    (found) => found !== null,
  );
  await nodes.clock.advance(30);
  const record = a.add(newTask('t1'));
  await nodes.clock.advance(50);
  assert.equal((await looking)?.key, record.key);
  let over = false;
  const never = b
    .lookUp(
      () => b.find('s', 'none', ADA),
      (found) => found !== null,
    )
    .then((found) => {
      over = true;
      return found;
    });
  await nodes.clock.advance(1_000);
  assert.ok(over);
  assert.equal(await never, null);
  await nodes.dispose();
});

test('a task that another node drops is not kept by the node that began it either', async () => {
  const nodes = new Nodes();
  const kept = new Set<string>();
  const own: TaskRecords = {
    load: () => [],
    put: ({ key }) => void kept.add(key),
    delete: (key) => void kept.delete(key),
  };
  const [a, b] = [nodes.node(own), nodes.node()];
  const record = a.add(newTask('t1'));
  await settled();
  assert.deepEqual([...kept], [record.key]);
  b.delete(record);
  await settled();
  assert.equal(a.get(record.key), null);
  assert.deepEqual([...kept], []);
  await nodes.dispose();
});

test('a task whose description exceeds the store’s limit stays at its node, and delays no other', async () => {
  const nodes = new Nodes();
  const [a, b] = [nodes.node(), nodes.node()];
  const long = a.add(newTask('long', { description: Buffer.from(`{"statusMessage":"${'x'.repeat(600_000)}"}`) }));
  await settled();
  const short = a.add(newTask('short'));
  await settled();
  assert.equal(b.get(long.key), null);
  assert.equal(b.get(short.key)?.taskId, 'short');
  await nodes.dispose();
});

test('while the secret changes tasks are known to nodes at all steps, and to those with the new secret alone', async () => {
  const nodes = new Nodes();
  const record = nodes.node().add(newTask('t1'));
  await settled();
  const second = nodes.node(NO_RECORDS, [NEW, OLD]);
  for (let i = 0; i < 20; i++) {
    await nodes.clock.advance(1_000);
    await settled();
  }
  const third = nodes.node(NO_RECORDS, [NEW]);
  await settled();
  assert.deepEqual([second.get(record.key), third.get(record.key)], [record, record]);
  third.update(record, { status: 'completed', answer: ANSWER });
  await settled();
  assert.equal(second.get(record.key)?.status, 'completed');
  await nodes.dispose();
});
