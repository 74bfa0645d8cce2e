import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { LossyStore } from '../../../test/support/lossy-store.ts';
import { Logger } from '../../telemetry/logger.ts';
import { LazyBucket } from '../lazy-bucket.ts';
import { MissingRecords } from './missing-records.ts';

/** So many records of which the store has not told, and of which `lost` are not there. */
async function missing(count: number, isLost: (at: number) => boolean, lostAll = false) {
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
      {
        bucket: new LazyBucket(view, 'records', { ttlMs: 0 }),
        name: 'records',
        clock,
        logger: new Logger({ level: 'warn', write: (line) => lines.push(line) }),
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
      lostAll,
    );
  return { clock, bucket, view, keys, left, recalled, events, lines, seek };
}

test('fault:F28 what is missing is looked for many at a time, but not all at once, and written as it is found missing', async () => {
  const { bucket, view, keys, recalled, lines, seek } = await missing(100, () => true);
  const looking = Promise.withResolvers<void>();
  const { looks } = view;
  view.looks = looking.promise;
  const records = seek();
  await settled();
  assert.deepEqual([view.looked, recalled.length], [32, 0]);
  view.looks = looks;
  looking.resolve();
  await settled();
  assert.deepEqual(recalled, keys);
  for (const key of keys) assert.equal((await bucket.get(key))?.value.toString(), 'known');
  const { event, records: written } = JSON.parse(lines[0]!);
  assert.deepEqual([event, written, lines.length], ['records_missing', 100, 1]);
  await records.close();
});

test('fault:F28 one that is looked for in vain holds up no other, and none is looked for again for its sake', async () => {
  const { clock, bucket, view, keys, recalled, events, seek } = await missing(100, (at) => at % 2 === 0);
  let fails = true;
  const open = view.bucket.bind(view);
  view.bucket = async (name, options) => {
    const its = await open(name, options);
    return {
      ...its,
      look: async (key) => (key === 'k0' && fails ? Promise.reject(new Error('damaged')) : its.look(key)),
    };
  };
  const records = seek();
  await settled();
  assert.deepEqual([view.looked, recalled.length, events.length], [99, 49, 50]);
  fails = false;
  await clock.advance(1_000);
  assert.equal(view.looked, 100);
  for (const [at, key] of keys.entries())
    assert.equal((await bucket.get(key))?.value.toString(), at % 2 === 0 ? 'known' : 'there');
  await clock.advance(5_000);
  assert.equal(view.looked, 100);
  await records.close();
});

test('fault:F28 a store that is away is asked again after a second, for a few and not for all', async () => {
  const { clock, view, recalled, seek } = await missing(100, () => true);
  let asked = 0;
  const open = view.bucket.bind(view);
  view.bucket = (...args) => {
    asked++;
    return open(...args);
  };
  view.away = true;
  const records = seek();
  await settled();
  assert.ok(asked <= 32 && recalled.length === 0, `${asked}`);
  view.away = false;
  await clock.advance(1_000);
  assert.equal(recalled.length, 100);
  await records.close();
});

test('fault:F28 where everything is known to be lost it is written without looking, and never over another node’s', async () => {
  const { view, recalled, events, seek } = await missing(10, (at) => at > 0, true);
  const records = seek();
  await settled();
  assert.deepEqual([recalled.length, view.looked, events], [10, 1, ['k0 there']]);
  await records.close();
});

test('fault:F28 when everything is told anew nothing that was looked for before is heard of, or written', async () => {
  const { view, recalled, events, seek } = await missing(100, (at) => at < 50);
  const looking = Promise.withResolvers<void>();
  view.looks = looking.promise;
  const records = seek();
  await settled();
  records.stop();
  looking.resolve();
  await settled();
  assert.deepEqual([recalled, events, view.looked], [[], [], 32]);
});

test('fault:F28 a node that ends has a moment to write again what only it may know of', async () => {
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
