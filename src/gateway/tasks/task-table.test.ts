import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { agent, client } from '../../../test/support/gateway-bench.ts';
import { ADA, newTask, UNHEARD } from '../../../test/support/new-task.ts';
import type { SharedTasks, TaskObserver, TaskRecord } from '../../model/ports.ts';
import { systemRandom } from '../../model/random.ts';
import { TaskSizes } from '../../model/task-sizes.ts';
import { MAX_TTL_MS, type NewTask, TaskTable } from './task-table.ts';

class Kept {
  readonly records = new Map<string, TaskRecord>();
  writes = 0;

  load(): Iterable<TaskRecord> {
    return [...this.records.values()];
  }

  put(record: TaskRecord): void {
    this.writes++;
    this.records.set(record.key, record);
  }

  delete(key: string): void {
    this.records.delete(key);
  }
}

function tabled() {
  const clock = new FakeClock();
  const kept = new Kept();
  const make = () => new TaskTable({ clock, random: systemRandom, records: kept, events: UNHEARD });
  return { clock, kept, make, table: make() };
}

/** A table that shares its tasks with other nodes; `follower` receives their tasks. */
function sharing(maxTasks: number) {
  const { clock, kept } = tabled();
  const followers: TaskObserver[] = [];
  const shared: SharedTasks = {
    nodes: 1,
    maxTasks,
    inMemory: new TaskSizes(),
    own: new TaskSizes(),
    setObserver: (theirs) => void followers.push(theirs),
    forget: () => {},
    read: async () => {},
    publishedTotal: () => 0,
  };
  const records = Object.assign(kept, { shared });
  const table = new TaskTable({ clock, random: systemRandom, records, events: UNHEARD });
  return { clock, kept, table, follower: followers[0]! };
}

const BOB = client('stateful', { principal: agent('bob', 's') });

const task = (taskId: string, more: Partial<NewTask> = {}): NewTask =>
  newTask(taskId, { description: Buffer.from('{}'), ...more });

const ended = (size: number) => ({ kind: 'result', era: 'stateful', body: Buffer.alloc(size) }) as const;

test('proto:S3 a task belongs to its principal; for all others it is unknown', () => {
  const { table } = tabled();
  const record = table.add(task('t'));
  assert.equal(table.find('s', 't', ADA)?.key, record.key);
  assert.equal(table.find('s', 't', BOB), null);
  assert.equal(table.find('other', 't', ADA), null);
  assert.ok(table.knows('s', 't'));
  assert.deepEqual([...table.of(BOB.principal.id)], []);
});

test('tasks with the same id are separated by their session', () => {
  const { table } = tabled();
  const first = table.add(task('t', { sessionId: 'one' }));
  const second = table.add(task('t', { sessionId: 'two' }));
  const in_ = (sessionId: string) => table.find('s', 't', { ...ADA, sessionId });
  assert.equal(in_('one')?.key, first.key);
  assert.equal(in_('two')?.key, second.key);
  assert.equal(in_('three')?.key, second.key);
  assert.deepEqual(
    table.findOnSession('s', 't', 'one').map(({ key }) => key),
    [first.key],
  );
});

test('a task lives as long as its ttl, and a task without one for a week after its last change', async () => {
  const { table, clock, kept } = tabled();
  table.add(task('short', { ttlMs: 1_000 }));
  const endless = table.add(task('endless', { ttlMs: null }));
  await clock.advance(1_000);
  assert.equal(table.find('s', 'short', ADA), null);
  await clock.advance(MAX_TTL_MS - 2_000);
  table.update(endless, { status: 'input_required' });
  await clock.advance(MAX_TTL_MS - 1_000);
  assert.notEqual(table.find('s', 'endless', ADA), null);
  await clock.advance(1_000);
  assert.equal(table.find('s', 'endless', ADA), null);
  assert.equal(kept.records.size, 0);
});

test('expired tasks are removed without a request', async () => {
  const { table, clock, kept } = tabled();
  table.add(task('t', { ttlMs: 1_000 }));
  assert.equal(kept.records.size, 1);
  await clock.advance(61_000);
  assert.equal(kept.records.size, 0);
  assert.equal(clock.pending, 0);
});

test('a task that has ended does not change, and watchers are notified', () => {
  const { table } = tabled();
  const record = table.add(task('t'));
  const heard: string[] = [];
  const stop = table.watch(record.key, ({ status }) => heard.push(status));
  table.update(record, { status: 'working' });
  const cancelled = table.update(record, { status: 'cancelled' });
  assert.equal(table.update(cancelled, { status: 'completed', answer: ended(1) }).status, 'cancelled');
  stop();
  table.update(cancelled, { description: Buffer.from('{"x":1}') });
  assert.deepEqual(heard, ['cancelled']);
});

test('records survive the table; expired ones do not', async () => {
  const { table, clock, kept, make } = tabled();
  table.add(task('short', { ttlMs: 1_000 }));
  const record = table.add(task('long'));
  table.update(record, { status: 'completed', answer: ended(3) });
  table.close();
  await clock.advance(2_000);
  const again = make();
  const found = again.find('s', 'long', ADA)!;
  assert.deepEqual([found.status, found.answer?.body.length], ['completed', 3]);
  assert.equal(again.find('s', 'short', ADA), null);
  assert.equal(kept.records.size, 1);
  again.close();
});

test('the end of a session leaves its tasks to the other sessions of its principal', () => {
  const { table, kept } = tabled();
  const record = table.add(task('t'));
  table.sessionEnded(ADA.sessionId!);
  assert.equal(table.find('s', 't', { ...ADA, sessionId: 'another' })?.sessionId, null);
  assert.equal(kept.records.get(record.key)?.sessionId, null);
});

test('an update without a change is not written', () => {
  const { table, kept } = tabled();
  const record = table.add(task('t'));
  table.update(record, { status: 'working', description: Buffer.from('{}') });
  assert.equal(kept.writes, 1);
});

test('a task without a ttl that clients poll is written once a day, so that other nodes know its end', async () => {
  const { table, clock, kept } = tabled();
  const record = table.add(task('t', { ttlMs: null }));
  for (let hour = 0; hour < 48; hour++) {
    await clock.advance(3_600_000);
    table.update(record, { status: 'working' });
  }
  assert.equal(kept.writes, 3);
  assert.equal(kept.records.get(record.key)!.expiresAt > clock.wall() + MAX_TTL_MS - 24 * 3_600_000, true);
});

test('tasks of one principal are bounded: the oldest that has ended is removed, and no running task is lost', () => {
  const { table } = tabled();
  const records = Array.from({ length: 1_000 }, (_, i) => table.add(task(`t${i}`)));
  assert.equal(table.refusal(ADA.principal.id)?.code, 'OVERLOADED');
  assert.equal(table.refusal(BOB.principal.id), null);
  table.update(records[5]!, { status: 'completed', answer: ended(1) });
  assert.equal(table.refusal(ADA.principal.id), null);
  table.add(task('one more'));
  assert.equal(table.find('s', 't5', ADA), null);
  assert.notEqual(table.find('s', 't0', ADA), null);
  assert.equal(table.refusal(ADA.principal.id)?.code, 'OVERLOADED');
});

test('kept answers are bounded in bytes, per principal first', () => {
  const { table } = tabled();
  table.add(task('of bob', { principal: BOB.principal.id, status: 'completed', answer: ended(8 * 1024 * 1024) }));
  for (let i = 0; i < 5; i++) {
    const record = table.add(task(`t${i}`));
    table.update(record, { status: 'completed', answer: ended(4 * 1024 * 1024) });
  }
  const left = [...table.of(ADA.principal.id)].map(({ taskId }) => taskId);
  assert.deepEqual(left, ['t2', 't3', 't4']);
  assert.notEqual(table.find('s', 'of bob', BOB), null);
});

test('a task that has just ended stays, and the oldest other one is removed', () => {
  const { table, kept } = tabled();
  const first = table.add(task('first'));
  for (let i = 0; i < 2; i++) {
    table.add(task(`t${i}`, { status: 'completed', answer: ended(8 * 1024 * 1024 - 100) }));
  }
  table.update(first, { status: 'completed', answer: ended(1_000) });
  assert.equal(table.find('s', 'first', ADA)?.status, 'completed');
  assert.equal(kept.records.get(first.key)?.status, 'completed');
  assert.equal(table.find('s', 't0', ADA), null);
  assert.notEqual(table.find('s', 't1', ADA), null);
});

test('the oldest task that has ended is removed, also if another node reported it later', () => {
  const { table, follower } = sharing(3);
  const own = table.add(task('own', { status: 'completed', answer: ended(1) }));
  follower.received({ ...own, key: 'theirs', taskId: 'theirs', startedAt: own.startedAt - 1 });
  for (const taskId of ['third', 'fourth']) table.add(task(taskId));
  assert.deepEqual(
    ['own', 'theirs', 'third', 'fourth'].filter((taskId) => table.find('s', taskId, ADA) !== null),
    ['own', 'third', 'fourth'],
  );
});

test('after a restart a task of a temporary session is fetched over the caller’s own connection', () => {
  const { table, make } = tabled();
  table.add(task('passing', { passing: true }));
  table.add(task('lasting'));
  assert.equal(table.find('s', 'passing', ADA)?.sessionId, ADA.sessionId);
  table.close();
  const again = make();
  const sessions = ['passing', 'lasting'].map((taskId) => again.find('s', taskId, ADA)?.sessionId);
  assert.deepEqual(sessions, [null, ADA.sessionId]);
  again.close();
});

test('check:C9 a task of another node is kept for a minute after its ttl, because the clock of that node may be behind', async () => {
  const { clock, kept, table, follower } = sharing(10);
  const own = table.add(task('own', { ttlMs: 30_000 }));
  const theirs = { ...own, key: 'theirs', taskId: 'theirs', expiresAt: clock.wall() - 50_000 };
  kept.put(theirs);
  follower.received(theirs);
  follower.received({ ...theirs, key: 'over', taskId: 'over', expiresAt: clock.wall() - 60_000 });
  const known = () => ['own', 'theirs', 'over'].filter((taskId) => table.find('s', taskId, ADA) !== null);
  await clock.advance(9_999);
  assert.deepEqual(known(), ['own', 'theirs']);
  await clock.advance(1);
  assert.deepEqual(known(), ['own']);
  assert.deepEqual([...kept.records.keys()], [own.key]);
  await clock.advance(20_000);
  assert.deepEqual([known(), kept.records.size], [[], 0]);
});
