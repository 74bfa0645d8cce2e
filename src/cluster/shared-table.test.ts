import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALONE } from '../../test/support/cluster-bench.ts';
import { FakeClock, settled } from '../../test/support/fake-clock.ts';
import { LossyStore } from '../../test/support/lossy-store.ts';
import type { Bucket } from '../bus/shared-state.ts';
import { Logger } from '../telemetry/logger.ts';
import { SharedTable } from './shared-table.ts';

/** A node that knows `count` records, some of which the store has lost since. */
async function known(count: number, isLost: (at: number) => boolean = () => false) {
  const clock = new FakeClock();
  const store = new LossyStore(clock);
  const bucket = store.present.bucket('records', { ttlMs: 0 });
  const keys = Array.from({ length: count }, (_, at) => `k${at}`);
  for (const key of keys) await bucket.create(key, Buffer.from('there'));
  const view = store.view();
  /** Keys that the store does not find although it has them, and keys that it cannot write. */
  const [unfound, damaged] = [new Set<string>(), new Set<string>()];
  const open = view.bucket.bind(view);
  view.bucket = (...args) => {
    const its = open(...args);
    const { look: looked, restore: restored } = its;
    const look: Bucket['look'] = async (key) => (unfound.has(key) ? null : looked(key));
    const restore: Bucket['restore'] = (key, value) =>
      damaged.has(key) ? Promise.reject(new Error('damaged')) : restored(key, value);
    return Object.assign(its, { look, restore });
  };
  const recalled: string[] = [];
  const events: string[] = [];
  const lines: string[] = [];
  const logger = new Logger({ level: 'warn', write: (line) => lines.push(line) });
  const table = new SharedTable(
    { ...ALONE, state: view, clock, logger },
    { bucket: 'records', ttlMs: 0 },
    {
      received: ({ key, value }) => events.push(`${key} ${value}`),
      gone: (key) => events.push(`${key} gone`),
      recall: (key) => {
        recalled.push(key);
        return Buffer.from('known');
      },
    },
  );
  await settled();
  assert.equal(events.splice(0).length, count);
  for (const [at, key] of keys.entries()) if (isLost(at)) await store.lose('records', key);
  /** The store begins a listing after an outage and ends it before it has listed anything. */
  const listNothing = async (): Promise<void> => {
    view.hears = false;
    await view.tellAgain();
    view.hears = true;
    await settled();
  };
  const close = async (): Promise<void> => {
    const closing = table.close();
    await clock.advance(4_000);
    await closing;
  };
  return { clock, bucket, view, unfound, damaged, keys, recalled, events, lines, table, listNothing, close };
}

test('fault:F28 records that a store has not listed are read before they count as gone, because it may end its listing too early', async () => {
  const { bucket, events, listNothing, close } = await known(2);
  await bucket.delete('k1');
  events.length = 0;
  await listNothing();
  assert.deepEqual(events, ['k0 there']);
  await close();
});

test('fault:F28 while the store does not answer no record counts as gone', async () => {
  const { bucket, clock, events, view, listNothing, close } = await known(2);
  const refused = Promise.reject(new Error('no answer'));
  refused.catch(() => {});
  view.writes = refused;
  await listNothing();
  await clock.advance(5_000);
  assert.deepEqual(events, []);
  view.writes = Promise.resolve();
  await clock.advance(1_000);
  assert.deepEqual(events, ['k0 there', 'k1 there']);
  await bucket.delete('k0');
  assert.deepEqual(events.splice(2), ['k0 gone']);
  await close();
});

test('fault:F28 a record that the store does not find, and no node deleted, is not gone, and is not overwritten', async () => {
  const { bucket, clock, events, unfound, listNothing, close } = await known(2);
  const { revision } = (await bucket.get('k0'))!;
  unfound.add('k0');
  await listNothing();
  await clock.advance(1_000);
  assert.deepEqual(events.splice(0), ['k1 there']);
  unfound.clear();
  await clock.advance(1_000);
  assert.deepEqual(events, ['k0 there']);
  assert.equal((await bucket.get('k0'))?.revision, revision);
  await close();
});

test('fault:F28 lost records are written many at a time, but not all at once', async () => {
  const { bucket, view, keys, recalled, events, lines, listNothing, close } = await known(100, () => true);
  const writing = Promise.withResolvers<void>();
  view.writes = writing.promise;
  await listNothing();
  assert.equal(recalled.length, 64);
  view.writes = Promise.resolve();
  writing.resolve();
  await settled();
  assert.deepEqual([recalled, view.looked], [keys, 0]);
  assert.deepEqual(
    events,
    keys.map((key) => `${key} known`),
  );
  for (const key of keys) assert.equal((await bucket.get(key))?.value.toString(), 'known');
  const { event, records } = JSON.parse(lines[0]!);
  assert.deepEqual([event, records, lines.length], ['records_missing', 100, 1]);
  await close();
});

test('fault:F28 existing records are received, deleted ones are gone, and lost ones are written again', async () => {
  const { bucket, events, lines, view, listNothing, close } = await known(3, (at) => at === 1);
  view.hears = false;
  await bucket.delete('k2');
  await listNothing();
  assert.deepEqual(events.sort(), ['k0 there', 'k1 known', 'k2 gone']);
  assert.deepEqual([...(await bucket.keys())].sort(), ['k0', 'k1']);
  assert.equal(JSON.parse(lines[0]!).records, 1);
  await close();
});

test('fault:F28 a record that cannot be written delays no other, and none is read again because of it', async () => {
  const { clock, bucket, damaged, keys, recalled, listNothing, close } = await known(100, (at) => at % 2 === 0);
  damaged.add('k0');
  await listNothing();
  await settled();
  assert.equal(new Set(recalled).size, 100);
  damaged.clear();
  recalled.length = 0;
  await clock.advance(5_000);
  assert.deepEqual(recalled, ['k0']);
  for (const [at, key] of keys.entries())
    assert.equal((await bucket.get(key))?.value.toString(), at % 2 === 0 ? 'known' : 'there');
  await close();
});

test('fault:F28 a store that is away is asked again after a second, for a few records and not for all', async () => {
  const { clock, bucket, damaged, keys, recalled, listNothing, close } = await known(100, () => true);
  for (const key of keys) damaged.add(key);
  await listNothing();
  assert.equal(recalled.length, 64);
  damaged.clear();
  await clock.advance(1_000);
  assert.equal((await bucket.keys()).length, 100);
  await close();
});

test('fault:F28 when everything is listed again, earlier reads report and write nothing', async () => {
  const { view, recalled, events, listNothing, close } = await known(100);
  const looking = Promise.withResolvers<void>();
  view.looks = looking.promise;
  await listNothing();
  assert.equal(recalled.length, 64);
  await view.tellAgain();
  assert.equal(events.splice(0).length, 100);
  looking.resolve();
  await settled();
  assert.deepEqual([recalled.length, events], [64, []]);
  await close();
});

test('fault:F28 a node that ends has a moment to write again the records that only it may know', async () => {
  const { clock, bucket, damaged, keys, table, listNothing } = await known(3, () => true);
  for (const key of keys) damaged.add(key);
  await listNothing();
  let ended = false;
  const closing = table.close().then(() => (ended = true));
  await clock.advance(200);
  assert.equal(ended, false);
  damaged.clear();
  await clock.advance(1_000);
  await closing;
  assert.equal((await bucket.keys()).length, 3);
  assert.equal(clock.pending, 0);
});

test('fault:F28 a node that has ended looks for no records, whatever it received while it ended', async () => {
  const { clock, damaged, table, listNothing } = await known(2);
  damaged.add('k0').add('k1');
  await listNothing();
  const closing = table.close();
  await listNothing();
  await clock.advance(4_000);
  await closing;
  await clock.advance(4_000);
  assert.equal(clock.pending, 0);
});

test('a known record is written with one round trip, and read first only if the node missed a write', async () => {
  const { bucket, events, table, view, close } = await known(2);
  for (const value of ['first', 'second']) {
    table.put('k0', Buffer.from(value));
    await settled();
  }
  assert.equal(view.looked, 0);
  view.hears = false;
  await bucket.update('k1', Buffer.from('of another'), (await bucket.get('k1'))!.revision);
  table.put('k1', Buffer.from('third'));
  await settled();
  assert.equal(view.looked, 1);
  await bucket.delete('k0');
  table.put('k0', Buffer.from('fourth'));
  await settled();
  assert.equal(await bucket.get('k0'), null, 'a deletion is final');
  assert.deepEqual([(await bucket.get('k1'))!.value.toString(), events.at(-1)], ['third', 'k0 gone']);
  await close();
});
