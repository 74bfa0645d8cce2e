import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import type { Bucket, SharedState, StateWatcher } from '../../bus/shared-state.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { Logger } from '../../telemetry/logger.ts';
import { FollowedRecords } from './followed-records.ts';

/** Records that are followed in a store which can be had to tell everything again, of which it says too early that it has. */
async function followed() {
  const clock = new FakeClock();
  const memory = new MemorySharedState(clock);
  const bucket = await memory.bucket('records', { ttlMs: 0 });
  let watcher: StateWatcher | null = null;
  let answers = true;
  /** What it says is not there, and is. */
  const unread = new Set<string>();
  const its: Bucket = {
    name: bucket.name,
    incarnation: bucket.incarnation,
    get: (key) => bucket.get(key),
    look: async (key) => {
      if (!answers) throw new GatewayError('NOT_SENT', 'the store is away');
      return unread.has(key) ? null : bucket.look(key);
    },
    create: (key, value) => bucket.create(key, value),
    restore: (key, value) => bucket.restore(key, value),
    update: (key, value, revision) => bucket.update(key, value, revision),
    delete: (key, revision) => bucket.delete(key, revision),
    keys: (pattern) => bucket.keys(pattern),
    watch: (pattern, given) => bucket.watch(pattern, (watcher = given)),
  };
  const heard: string[] = [];
  const state: SharedState = { bucket: async () => its };
  const records = new FollowedRecords(
    { state, clock, logger: Logger.silent() },
    { bucket: 'records', keptMs: 0, maxValueBytes: 1_000 },
    {
      heard: (key, value) => heard.push(`${key} ${value}`),
      gone: (key) => heard.push(`${key} gone`),
      recall: () => Buffer.from('y'),
    },
  );
  await settled();
  for (const key of ['one', 'two']) await bucket.create(key, Buffer.from('x'));
  await settled();
  assert.deepEqual(heard.splice(0), ['one x', 'two x']);
  return {
    bucket,
    clock,
    heard,
    records,
    unread,
    answers: (does: boolean) => {
      answers = does;
    },
    readyTooEarly: async () => {
      watcher!.onBegin?.();
      watcher!.onReady?.(bucket.incarnation);
      await settled();
    },
  };
}

test('fault:F28 records that a store has not listed are read before they count as gone, because it may end its listing too early', async () => {
  const { bucket, heard, records, readyTooEarly } = await followed();
  await bucket.delete('two');
  heard.length = 0;
  await readyTooEarly();
  assert.deepEqual(heard, ['one x']);
  await bucket.delete('two');
  assert.deepEqual(heard, ['one x']);
  await records.close();
});

test('fault:F28 while the store does not answer no record counts as gone', async () => {
  const { bucket, clock, heard, records, answers, readyTooEarly } = await followed();
  answers(false);
  await readyTooEarly();
  await clock.advance(5_000);
  assert.deepEqual(heard, []);
  answers(true);
  await clock.advance(1_000);
  await settled();
  assert.deepEqual(heard, ['one x', 'two x']);
  await bucket.delete('one');
  assert.deepEqual(heard.splice(2), ['one gone']);
  await records.close();
});

test('fault:F28 a record that the store does not find, and no node deleted, is not gone, and is not overwritten', async () => {
  const { bucket, clock, heard, records, readyTooEarly, unread } = await followed();
  const { revision } = (await bucket.get('one'))!;
  unread.add('one');
  await readyTooEarly();
  assert.deepEqual(heard.splice(0), ['two x']);
  unread.clear();
  await clock.advance(1_000);
  assert.deepEqual(heard.splice(0), ['one x']);
  assert.equal((await bucket.get('one'))?.revision, revision);
  await bucket.delete('two');
  heard.length = 0;
  await readyTooEarly();
  assert.deepEqual(heard, ['one x']);
  await records.close();
});

test('fault:F28 a node that has ended looks for no records, whatever it received while it ended', async () => {
  const { clock, records, answers, readyTooEarly } = await followed();
  answers(false);
  await readyTooEarly();
  const closing = records.close();
  await readyTooEarly();
  await clock.advance(4_000);
  await closing;
  await clock.advance(4_000);
  assert.equal(clock.pending, 0);
});
