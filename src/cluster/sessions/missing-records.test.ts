import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { LossyStore } from '../../../test/support/lossy-store.ts';
import { Logger } from '../../telemetry/logger.ts';
import { LazyBucket } from '../lazy-bucket.ts';
import { MissingRecords } from './missing-records.ts';

/** So many records of which the store has not told, and which of them are not there. */
async function missing(count: number, isLost: (at: number) => boolean) {
  const clock = new FakeClock();
  const store = new LossyStore(clock);
  const bucket = await store.present.bucket('records', { ttlMs: 0 });
  const keys = Array.from({ length: count }, (_, at) => `k${at}`);
  for (const [at, key] of keys.entries()) if (!isLost(at)) await bucket.create(key, Buffer.from('there'));
  const view = store.view();
  const left = new Set(keys);
  const recalled: string[] = [];
  const events: string[] = [];
  const lines: string[] = [];
  const seek = () =>
    new MissingRecords(
      { clock, logger: new Logger({ level: 'warn', write: (line) => lines.push(line) }) },
      new LazyBucket(view, 'records', { ttlMs: 0 }),
      'records',
      {
        isMissing: (key) => left.has(key),
        heard: ({ key, value }) => {
          left.delete(key);
          events.push(`${key} ${value}`);
        },
        gone: (key) => {
          left.delete(key);
          events.push(`${key} gone`);
        },
        recall: (key) => {
          recalled.push(key);
          return Buffer.from('known');
        },
      },
      keys,
    );
  return { clock, bucket, view, keys, recalled, events, lines, seek };
}

test('fault:F28 lost records are written many at a time, but not all at once', async () => {
  const { bucket, view, keys, recalled, events, lines, seek } = await missing(100, () => true);
  const writing = Promise.withResolvers<void>();
  view.writes = writing.promise;
  const records = seek();
  await settled();
  assert.equal(recalled.length, 32);
  view.writes = Promise.resolve();
  writing.resolve();
  await settled();
  assert.deepEqual([recalled, view.looked, events], [keys, 0, []]);
  for (const key of keys) assert.equal((await bucket.get(key))?.value.toString(), 'known');
  const { event, records: written } = JSON.parse(lines[0]!);
  assert.deepEqual([event, written, lines.length], ['records_missing', 100, 1]);
  await records.close();
});

test('fault:F28 existing records are received, and deleted ones are gone', async () => {
  const { bucket, events, lines, seek } = await missing(3, (at) => at === 1);
  await bucket.delete('k2');
  const records = seek();
  await settled();
  assert.deepEqual(events.sort(), ['k0 there', 'k2 gone']);
  assert.deepEqual([...(await bucket.keys())].sort(), ['k0', 'k1']);
  assert.equal(JSON.parse(lines[0]!).records, 1);
  await records.close();
});

test('fault:F28 a record that cannot be read delays no other, and none is read again because of it', async () => {
  const { clock, bucket, view, keys, recalled, events, seek } = await missing(100, (at) => at % 2 === 0);
  let fails = true;
  const open = view.bucket.bind(view);
  view.bucket = async (...args) => {
    const its = await open(...args);
    const restore: typeof its.restore = (key, value) =>
      key === 'k0' && fails ? Promise.reject(new Error('damaged')) : its.restore(key, value);
    return { ...its, restore };
  };
  const records = seek();
  await settled();
  const others = new Set(recalled).size;
  assert.deepEqual([others, events.length], [100, 50]);
  fails = false;
  recalled.length = 0;
  await clock.advance(5_000);
  assert.deepEqual(recalled, ['k0']);
  for (const [at, key] of keys.entries())
    assert.equal((await bucket.get(key))?.value.toString(), at % 2 === 0 ? 'known' : 'there');
  await records.close();
});

test('fault:F28 a store that is away is asked again after a second, for a few records and not for all', async () => {
  const { clock, bucket, view, recalled, seek } = await missing(100, () => true);
  view.away = true;
  const records = seek();
  await settled();
  assert.equal(recalled.length, 32);
  view.away = false;
  await clock.advance(1_000);
  assert.equal((await bucket.keys()).length, 100);
  await records.close();
});

test('fault:F28 when everything is listed again, earlier reads report and write nothing', async () => {
  const { view, recalled, events, seek } = await missing(100, () => false);
  const looking = Promise.withResolvers<void>();
  view.looks = looking.promise;
  const records = seek();
  await settled();
  records.stop();
  looking.resolve();
  await settled();
  assert.deepEqual([recalled.length, events], [32, []]);
});

test('fault:F28 a node that ends has a moment to write again what only it may know', async () => {
  const { clock, bucket, view, seek } = await missing(3, () => true);
  view.away = true;
  const records = seek();
  await settled();
  let ended = false;
  const closing = records.close().then(() => (ended = true));
  await clock.advance(200);
  assert.equal(ended, false);
  view.away = false;
  await clock.advance(1_000);
  await closing;
  assert.equal((await bucket.keys()).length, 3);
  assert.equal(clock.pending, 0);
});
