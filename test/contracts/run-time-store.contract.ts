import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { type RunTimeStore, STORE_LIMITS, type StoreWrite } from '../../src/store/run-time-store/run-time-store.ts';

export interface StoreSubject {
  /** Opens the database of this name, with the records from earlier openings. */
  open(name: string): RunTimeStore;
}

function put(key: string, value: string, expected?: number | null): StoreWrite {
  return { kind: 'put', collection: 'c', key, value, ...(expected === undefined ? {} : { expected }) };
}

/** The suite of the port `RunTimeStore`. */
export function runTimeStoreContract(name: string, subject: StoreSubject): void {
  describe(`run-time store: ${name}`, () => {
    let count = 0;
    const opened: RunTimeStore[] = [];
    afterEach(async () => {
      for (const runTimeStore of opened.splice(0)) await runTimeStore.close();
    });

    function open(database: string): RunTimeStore {
      const runTimeStore = subject.open(database);
      opened.push(runTimeStore);
      return runTimeStore;
    }
    const fresh = () => open(`t${++count}`);
    const values = async (runTimeStore: RunTimeStore) => [
      ...(await runTimeStore.read(['c'])).records.get('c')!.values(),
    ];

    test('in a new store every collection is empty, at revision 0', async () => {
      const runTimeStore = fresh();
      const { revision, records } = await runTimeStore.read(['c', 'd']);
      assert.equal(revision, 0);
      assert.deepEqual(
        [...records.entries()],
        [
          ['c', new Map()],
          ['d', new Map()],
        ],
      );
      assert.deepEqual(await runTimeStore.list('c'), []);
    });

    test('an applied change is there after the next opening, as it was written check:A2', async () => {
      const database = `t${++count}`;
      const first = open(database);
      const value = '{"n":12345678901234567890,"s":"ü\\u0000\u{1f600}","d":1.0}';
      assert.deepEqual(await first.apply([put('k', value), put('ключ', '1')]), { ok: true, revision: 1 });
      await first.close();
      const { revision, records } = await open(database).read(['c']);
      assert.equal(revision, 1);
      assert.deepEqual(
        [...records.get('c')!.values()],
        [
          { key: 'k', value, revision: 1 },
          { key: 'ключ', value: '1', revision: 1 },
        ],
      );
    });

    test('revisions grow over all collections and are never issued twice, deletions included', async () => {
      const runTimeStore = fresh();
      await runTimeStore.apply([put('a', '1')]);
      await runTimeStore.apply([{ kind: 'put', collection: 'd', key: 'a', value: '2' }]);
      assert.deepEqual(await runTimeStore.apply([{ kind: 'delete', collection: 'd', key: 'a' }]), {
        ok: true,
        revision: 3,
      });
      await runTimeStore.apply([put('a', '3')]);
      assert.deepEqual(await values(runTimeStore), [{ key: 'a', value: '3', revision: 4 }]);
      assert.deepEqual(await runTimeStore.list('d'), []);
      assert.equal((await runTimeStore.read(['c'])).revision, 4);
    });

    test('a change that changes nothing takes no revision', async () => {
      const runTimeStore = fresh();
      await runTimeStore.apply([put('a', '1')]);
      assert.deepEqual(await runTimeStore.apply([{ kind: 'delete', collection: 'c', key: 'none' }]), {
        ok: true,
        revision: 1,
      });
    });

    test('of two writers that read the same revision, the later one gets the current revision, and nothing of its change is stored', async () => {
      const runTimeStore = fresh();
      await runTimeStore.apply([put('a', '1')]);
      assert.deepEqual(await runTimeStore.apply([put('a', 'mine', 1)]), { ok: true, revision: 2 });
      const late = put('a', 'yours', 1);
      assert.deepEqual(await runTimeStore.apply([put('b', 'too'), late]), { ok: false, write: late, found: 2 });
      assert.deepEqual(await values(runTimeStore), [{ key: 'a', value: 'mine', revision: 2 }]);
      const absent: StoreWrite = { kind: 'delete', collection: 'c', key: 'b', expected: 1 };
      assert.deepEqual(await runTimeStore.apply([absent]), { ok: false, write: absent, found: null });
      const other: StoreWrite = { kind: 'delete', collection: 'c', key: 'a', expected: null };
      assert.deepEqual(await runTimeStore.apply([put('b', '1'), other]), { ok: false, write: other, found: 2 });
      assert.deepEqual(await values(runTimeStore), [{ key: 'a', value: 'mine', revision: 2 }]);
    });

    test('of twenty concurrent first writers one succeeds', async () => {
      const runTimeStore = fresh();
      const all = await Promise.all(
        Array.from({ length: 20 }, (_, i) => runTimeStore.apply([put('one', `${i}`, null)])),
      );
      assert.equal(all.filter(({ ok }) => ok).length, 1);
      assert.equal((await values(runTimeStore)).length, 1);
    });

    test('later writes of a change see the earlier ones', async () => {
      const runTimeStore = fresh();
      await runTimeStore.apply([
        put('a', '1', null),
        { kind: 'delete', collection: 'c', key: 'a' },
        put('a', '2', null),
      ]);
      assert.deepEqual(await values(runTimeStore), [{ key: 'a', value: '2', revision: 1 }]);
    });

    test('a list returns the keys with a prefix page by page', async () => {
      const runTimeStore = fresh();
      const keys = ['a%1', 'a/1', 'a/2', 'a/3', 'b/1', 'A/1'];
      await runTimeStore.apply(keys.map((key) => put(key, '0')));
      const listed = async (options: Parameters<RunTimeStore['list']>[1]) =>
        (await runTimeStore.list('c', options)).map(({ key }) => key);
      assert.deepEqual(await listed({ prefix: 'a/' }), ['a/1', 'a/2', 'a/3']);
      assert.deepEqual(await listed({ prefix: 'a/', limit: 2 }), ['a/1', 'a/2']);
      assert.deepEqual(await listed({ prefix: 'a/', limit: 2, after: 'a/2' }), ['a/3']);
      assert.deepEqual(await listed({}), [...keys].sort());
    });

    test('a change that exceeds a limit is refused as a whole', async () => {
      const runTimeStore = fresh();
      const { keyBytes, valueBytes, writes } = STORE_LIMITS;
      const bad: readonly StoreWrite[][] = [
        [put('a', '1'), put('k'.repeat(keyBytes + 1), '1')],
        [put('a', '1'), put('', '1')],
        [put('a', 'x'.repeat(valueBytes + 1))],
        Array.from({ length: writes + 1 }, (_, i) => put(`${i}`, '1')),
        Array.from({ length: 9 }, (_, i) => put(`${i}`, 'x'.repeat(valueBytes))),
        [put('a\0b', '1')],
        [put('\ud800', '1')],
      ];
      for (const change of bad) await assert.rejects(runTimeStore.apply(change), RangeError);
      assert.deepEqual(await values(runTimeStore), []);
      assert.equal((await runTimeStore.apply([put('k'.repeat(keyBytes), 'x'.repeat(valueBytes))])).ok, true);
      const most = Array.from({ length: writes }, (_, i) => put(`${i}`, 'x'.repeat(3_584)));
      assert.equal((await runTimeStore.apply(most)).ok, true);
      assert.equal((await values(runTimeStore)).length, writes + 1);
    });

    test('a closed store reads and writes nothing', async () => {
      const runTimeStore = fresh();
      await runTimeStore.close();
      await runTimeStore.close();
      await assert.rejects(runTimeStore.apply([put('a', '1')]), { fault: 'unavailable' });
      await assert.rejects(runTimeStore.read(['c']), { fault: 'unavailable' });
    });
  });
}
