import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import type { Bucket, SharedState, StateRecord } from '../../src/bus/shared-state.ts';

export interface StateHarness {
  readonly name: string;
  start(): Promise<StateBench>;
}

export interface StateBench {
  /** Two nodes' views of the same state. */
  readonly nodes: readonly [SharedState, SharedState];
  /** Lets this time pass for records; real time where the clock cannot be set. */
  pass(ms: number): Promise<void>;
  dispose(): Promise<void>;
}

/** Long enough for a write and a read on a busy machine. */
const TTL_MS = 1_500;

/** What every `SharedState` promises. */
export function sharedStateContract(harness: StateHarness): void {
  describe(`shared state contract: ${harness.name}`, () => {
    function scenario(title: string, run: (bench: StateBench, a: Bucket, b: Bucket) => Promise<void>, ttlMs = 0): void {
      test(`check:H4 [${harness.name}] ${title}`, { timeout: 60_000 }, async () => {
        const bench = await harness.start();
        const name = `test-${randomBytes(6).toString('hex')}`;
        try {
          const [a, b] = bench.nodes.map((node) => node.bucket(name, { ttlMs }));
          assert.equal(await a!.readIncarnation(), await b!.readIncarnation());
          assert.equal(a!.incarnation, b!.incarnation);
          await run(bench, a!, b!);
        } finally {
          await bench.dispose();
        }
      });
    }

    scenario('one node reads what another writes, byte for byte', async (_bench, a, b) => {
      const value = randomBytes(60_000);
      const revision = await a.create('own.server=2E1.k-1', value);
      assert.ok(revision !== null && revision > 0);
      const record = await b.get('own.server=2E1.k-1');
      assert.ok(record?.value.equals(value));
      assert.equal(record?.revision, revision);
      assert.equal(await b.get('own.server=2E1'), null);
      await assert.rejects(a.create('long', Buffer.alloc(64 * 1024 + 1)), { code: 'TOO_LARGE' });
    });

    scenario('one of many concurrent claims of a key succeeds', async (_bench, a, b) => {
      const claims = Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? a : b).create('lease', text(`${at}`)));
      const revisions = await Promise.all(claims);
      const winners = revisions.flatMap((revision, at) => (revision === null ? [] : [at]));
      assert.equal(winners.length, 1);
      const record = await a.get('lease');
      assert.equal(record?.value.toString(), `${winners[0]}`);
    });

    scenario('a write on an older revision does not overwrite a newer one', async (_bench, a, b) => {
      const first = await a.create('lease', text('one'));
      const second = await b.update('lease', text('two'), first!);
      assert.ok(second! > first!);
      assert.equal(await a.update('lease', text('three'), first!), null);
      assert.equal(await a.delete('lease', first!), false);
      assert.equal((await a.get('lease'))?.value.toString(), 'two');
      const updates = await Promise.all([1, 2, 3, 4].map((at) => a.update('lease', text(`${at}`), second!)));
      assert.equal(updates.filter((revision) => revision !== null).length, 1);
      assert.equal(await a.update('none', text('x'), 7), null);
    });

    scenario('a deleted key is gone and can be created again, with a later revision', async (_bench, a, b) => {
      const first = await a.create('lease', text('one'));
      assert.equal(await b.delete('lease', first!), true);
      assert.equal(await a.get('lease'), null);
      assert.deepEqual(await a.keys(), []);
      assert.equal(await a.update('lease', text('late'), first!), null);
      const again = await a.create('lease', text('two'));
      assert.ok(again! > first!);
      assert.equal(await b.create('lease', text('three')), null);
      assert.equal(await b.delete('lease'), true);
      assert.equal(await b.get('lease'), null);
    });

    scenario('a deleted key differs from a missing and an existing one', async (_bench, a, b) => {
      assert.equal(await a.look('lease'), null);
      const first = await a.create('lease', text('one'));
      const there = await b.look('lease');
      assert.ok(there !== null && there !== 'deleted');
      assert.deepEqual([there.value.toString(), there.revision], ['one', first]);
      await b.delete('lease');
      assert.equal(await a.look('lease'), 'deleted');
      assert.equal(await a.look('other'), null);
      await a.create('lease', text('two'));
      assert.equal(((await b.look('lease')) as StateRecord).value.toString(), 'two');
    });

    scenario('a restore writes lost records, and neither existing nor deleted ones', async (_b, a, b) => {
      const first = await a.restore('session', text('one'));
      assert.ok(first !== null && first > 0);
      assert.equal(await b.restore('session', text('two')), null);
      assert.equal((await a.get('session'))?.value.toString(), 'one');
      await a.delete('session');
      assert.equal(await b.restore('session', text('three')), null);
      assert.equal(await a.look('session'), 'deleted');
      const racing = await Promise.all(
        [1, 2, 3, 4].map((at) => (at % 2 === 0 ? a : b).restore('other', text(`${at}`))),
      );
      assert.equal(racing.filter((revision) => revision !== null).length, 1);
    });

    scenario('a deletion leaves its mark also for a missing key, which the store may have lost', async (_b, a, b) => {
      assert.equal(await a.delete('session'), true);
      assert.equal(await b.look('session'), 'deleted');
      assert.deepEqual([...(await marksOf(b)).keys()], ['session']);
      assert.equal(await b.restore('session', text('one')), null);
    });

    scenario('the marks of deletions are removed by their age, and nothing else changes', async (_bench, a, b) => {
      for (const key of ['kept', 'again', 'one', 'two', 'last']) await a.create(key, text('1'));
      for (const key of ['again', 'one', 'two']) await a.delete(key);
      await a.create('again', text('2'));
      await a.delete('last');
      assert.equal(await b.purgeTombstones(3_600_000), 0);
      assert.equal((await marksOf(a)).size, 3);
      const removed = await Promise.all([a.purgeTombstones(-3_600_000), b.purgeTombstones(-3_600_000)]);
      assert.equal(removed[0] + removed[1], 2, 'each by one node');
      assert.deepEqual([...(await marksOf(b)).keys()], ['last']);
      assert.deepEqual([...(await a.keys())].sort(), ['again', 'kept']);
      assert.equal(await b.look('one'), null);
      assert.equal(await a.update('one', text('late'), 3), null);
      assert.ok((await a.create('one', text('2')))! > (await marksOf(b)).get('last')!);
      await a.delete('kept');
      assert.equal(await b.purgeTombstones(-3_600_000), 1, 'a later purge removes a mark that is no longer the newest');
      assert.equal(await b.look('again').then((there) => there !== null && there !== 'deleted'), true);
    });

    scenario('creating a key again while its deletion mark is removed succeeds', async (_bench, a, b) => {
      for (let at = 0; at < 100; at++) {
        const first = await a.create('lease', text('one'));
        assert.ok(first !== null, `round ${at}`);
        await a.delete('lease', first);
        // The mark of the newest change would stay.
        await a.create(`other${at}`, text('1'));
        const [again] = await Promise.all([a.create('lease', text('two')), b.purgeTombstones(-3_600_000)]);
        assert.ok(again !== null && again > first + 1, `round ${at}`);
        assert.equal((await b.get('lease'))?.revision, again);
        await a.delete('lease', again);
      }
    });

    scenario(
      'a record without a renewal expires after its TTL, and later revisions are higher',
      async (bench, a, b) => {
        const first = await a.create('lease', text('one'));
        let revision = first!;
        for (let at = 0; at < 3; at++) {
          await bench.pass(TTL_MS / 2);
          revision = (await a.update('lease', text('renewed'), revision))!;
          assert.ok(revision !== null, `renewal ${at}`);
        }
        assert.equal(await b.create('lease', text('thief')), null);
        await bench.pass(TTL_MS);
        while ((await b.get('lease')) !== null) await bench.pass(50);
        assert.equal(await a.update('lease', text('too late'), revision), null);
        const taken = await b.create('lease', text('two'));
        assert.ok(taken! > revision);
        await b.delete('lease');
        assert.equal(await a.look('lease'), 'deleted', 'for as long as records are kept');
      },
      TTL_MS,
    );

    scenario('a watch delivers existing keys, then their end, then changes in order', async (_bench, a, b) => {
      await a.create('node.a', text('1'));
      await a.create('node.b', text('1'));
      await a.create('other.a', text('1'));
      const removed = await a.create('node.c', text('1'));
      await a.delete('node.c', removed!);
      const reported: string[] = [];
      const seen = (record: StateRecord): void => void reported.push(`put ${record.key} ${record.value.toString()}`);
      const watch = await b.watch('node.*', {
        put: seen,
        gone: (key) => void reported.push(`gone ${key}`),
        onBegin: () => void reported.push('begin'),
        onReady: (incarnation) => void reported.push(`ready ${incarnation === b.incarnation}`, 'ready'),
      });
      await eventually(() => reported.includes('ready'));
      assert.equal(reported[0], 'begin');
      assert.ok(reported.includes('ready true'), 'the watch reports the incarnation of the bucket');
      assert.deepEqual(
        reported
          .slice(0, reported.indexOf('ready'))
          .filter((line) => line.startsWith('put'))
          .sort(),
        ['put node.a 1', 'put node.b 1'],
      );
      reported.length = 0;
      let revision = (await a.get('node.a'))!.revision;
      for (let at = 2; at < 30; at++) revision = (await a.update('node.a', text(`${at}`), revision))!;
      await a.update('other.a', text('2'), (await a.get('other.a'))!.revision);
      await a.delete('node.b');
      await a.create('node.d', text('1'));
      await eventually(() => reported.at(-1) === 'put node.d 1');
      // Only the last change of a record has to arrive; no change arrives twice or out of order.
      const all = [...Array.from({ length: 28 }, (_, at) => `put node.a ${at + 2}`), 'gone node.b', 'put node.d 1'];
      const places = reported.map((line) => all.indexOf(line));
      assert.ok(!places.includes(-1), reported.join());
      assert.deepEqual(
        places,
        [...new Set(places)].sort((one, other) => one - other),
      );
      assert.deepEqual(reported.slice(-3), all.slice(-3));
      watch.close();
      await a.create('node.e', text('1'));
      assert.deepEqual([...(await b.keys('node.*'))].sort(), ['node.a', 'node.d', 'node.e']);
      assert.equal(reported.at(-1), 'put node.d 1');
    });

    scenario(
      'a watch of the newest records lists about that many of a larger bucket, and all of a smaller one',
      async (_bench, a, b) => {
        for (const key of ['a', 'b', 'c', 'd']) await a.create(key, text('1'));
        await a.update('a', text('2'), (await a.get('a'))!.revision);
        await a.delete('c');
        const listed = async (newest: number): Promise<string> => {
          const reported: string[] = [];
          const ready = Promise.withResolvers<boolean>();
          const watcher = {
            put: ({ key }: StateRecord) => void reported.push(key),
            gone: (key: string) => void reported.push(`-${key}`),
            onReady: (_incarnation: string, whole: boolean) => ready.resolve(whole),
          };
          const watch = await b.watch('>', watcher, newest);
          const whole = await ready.promise;
          const before = reported.join(' ');
          await a.update('b', text('2'), (await a.get('b'))!.revision);
          await eventually(() => reported.length > before.split(' ').length);
          watch.close();
          return `${before} ${whole}, then ${reported.at(-1)}`;
        };
        assert.match(await listed(2), /^a -c false, then b$/);
        assert.match(await listed(3), /true, then b$/, 'three records and a mark');
      },
    );

    scenario('a watch of an empty bucket is ready too', async (_bench, a) => {
      let ready = 0;
      const watch = await a.watch('>', { put() {}, gone() {}, onReady: () => ready++ });
      await eventually(() => ready === 1);
      watch.close();
    });
  });
}

/** The keys of deletion marks, with their revisions. */
async function marksOf(bucket: Bucket): Promise<Map<string, number>> {
  const marks = new Map<string, number>();
  const ready = Promise.withResolvers<void>();
  const gone = (key: string, revision: number): void => void marks.set(key, revision);
  const watch = await bucket.watch('>', { put() {}, gone, onReady: () => ready.resolve() });
  await ready.promise;
  watch.close();
  return marks;
}

function text(value: string): Buffer {
  return Buffer.from(value);
}

async function eventually(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}
