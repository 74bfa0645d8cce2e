import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { TRUTH_LIMITS, type Truth, type TruthWrite } from '../../src/store/truth/truth.ts';

export interface TruthSubject {
  /** Opens the database of this name; again for what an earlier one left. */
  open(name: string): Truth;
}

function put(key: string, value: string, expected?: number | null): TruthWrite {
  return { kind: 'put', collection: 'c', key, value, ...(expected === undefined ? {} : { expected }) };
}

/** The suite of the port `Truth`. */
export function truthContract(name: string, subject: TruthSubject): void {
  describe(`truth: ${name}`, () => {
    let count = 0;
    const opened: Truth[] = [];
    afterEach(async () => {
      for (const truth of opened.splice(0)) await truth.close();
    });

    function open(database: string): Truth {
      const truth = subject.open(database);
      opened.push(truth);
      return truth;
    }
    const fresh = () => open(`t${++count}`);
    const values = async (truth: Truth) => [...(await truth.read(['c'])).records.get('c')!.values()];

    test('nothing was written: every collection is empty, at revision 0', async () => {
      const truth = fresh();
      const { revision, records } = await truth.read(['c', 'd']);
      assert.equal(revision, 0);
      assert.deepEqual(
        [...records.entries()],
        [
          ['c', new Map()],
          ['d', new Map()],
        ],
      );
      assert.equal(await truth.get('c', 'k'), null);
      assert.deepEqual(await truth.list('c'), []);
    });

    test('what was applied is there after the next opening, as it was written check:A2', async () => {
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

    test('revisions grow over all collections and are never given twice, deletions included', async () => {
      const truth = fresh();
      await truth.apply([put('a', '1')]);
      await truth.apply([{ kind: 'put', collection: 'd', key: 'a', value: '2' }]);
      assert.deepEqual(await truth.apply([{ kind: 'delete', collection: 'd', key: 'a' }]), { ok: true, revision: 3 });
      await truth.apply([put('a', '3')]);
      assert.deepEqual(await truth.get('c', 'a'), { key: 'a', value: '3', revision: 4 });
      assert.equal(await truth.get('d', 'a'), null);
      assert.equal((await truth.read(['c'])).revision, 4);
    });

    test('a change that changes nothing takes no revision', async () => {
      const truth = fresh();
      await truth.apply([put('a', '1')]);
      assert.deepEqual(await truth.apply([{ kind: 'delete', collection: 'c', key: 'none' }]), {
        ok: true,
        revision: 1,
      });
      const check: TruthWrite = { kind: 'check', collection: 'c', key: 'a', expected: 1 };
      assert.deepEqual(await truth.apply([check]), { ok: true, revision: 1 });
    });

    test('of two writers who read the same revision, one is told what it finds instead, and nothing of its change is there', async () => {
      const truth = fresh();
      await truth.apply([put('a', '1')]);
      assert.deepEqual(await truth.apply([put('a', 'mine', 1)]), { ok: true, revision: 2 });
      const late = put('a', 'yours', 1);
      assert.deepEqual(await truth.apply([put('b', 'too'), late]), { ok: false, write: late, found: 2 });
      assert.deepEqual(await values(truth), [{ key: 'a', value: 'mine', revision: 2 }]);
      const absent: TruthWrite = { kind: 'delete', collection: 'c', key: 'b', expected: 1 };
      assert.deepEqual(await truth.apply([absent]), { ok: false, write: absent, found: null });
      const check: TruthWrite = { kind: 'check', collection: 'c', key: 'a', expected: null };
      assert.deepEqual(await truth.apply([put('b', '1'), check]), { ok: false, write: check, found: 2 });
      assert.equal(await truth.get('c', 'b'), null);
    });

    test('twenty who want to be the first: one is', async () => {
      const truth = fresh();
      const all = await Promise.all(Array.from({ length: 20 }, (_, i) => truth.apply([put('one', `${i}`, null)])));
      assert.equal(all.filter(({ ok }) => ok).length, 1);
      assert.equal((await values(truth)).length, 1);
    });

    test('later writes of a change see the earlier ones', async () => {
      const truth = fresh();
      await truth.apply([put('a', '1', null), { kind: 'delete', collection: 'c', key: 'a' }, put('a', '2', null)]);
      assert.deepEqual(await values(truth), [{ key: 'a', value: '2', revision: 1 }]);
    });

    test('a list goes page by page through the keys with a prefix', async () => {
      const truth = fresh();
      const keys = ['a%1', 'a/1', 'a/2', 'a/3', 'b/1', 'A/1'];
      await truth.apply(keys.map((key) => put(key, '0')));
      const listed = async (options: Parameters<Truth['list']>[1]) =>
        (await truth.list('c', options)).map(({ key }) => key);
      assert.deepEqual(await listed({ prefix: 'a/' }), ['a/1', 'a/2', 'a/3']);
      assert.deepEqual(await listed({ prefix: 'a/', limit: 2 }), ['a/1', 'a/2']);
      assert.deepEqual(await listed({ prefix: 'a/', limit: 2, after: 'a/2' }), ['a/3']);
      assert.deepEqual(await listed({}), [...keys].sort());
    });

    test('what is beyond the bounds is refused whole', async () => {
      const truth = fresh();
      const { keyBytes, valueBytes, writes } = TRUTH_LIMITS;
      const bad: readonly TruthWrite[][] = [
        [put('a', '1'), put('k'.repeat(keyBytes + 1), '1')],
        [put('a', '1'), put('', '1')],
        [put('a', 'x'.repeat(valueBytes + 1))],
        Array.from({ length: writes + 1 }, (_, i) => put(`${i}`, '1')),
        Array.from({ length: 9 }, (_, i) => put(`${i}`, 'x'.repeat(valueBytes))),
        [put('a\0b', '1')],
        [put('\ud800', '1')],
      ];
      for (const change of bad) await assert.rejects(truth.apply(change), RangeError);
      assert.deepEqual(await values(truth), []);
      assert.equal((await truth.apply([put('k'.repeat(keyBytes), 'x'.repeat(valueBytes))])).ok, true);
    });

    test('a closed one reads and writes nothing', async () => {
      const truth = fresh();
      await truth.close();
      await truth.close();
      await assert.rejects(truth.apply([put('a', '1')]), { fault: 'unavailable' });
      await assert.rejects(truth.read(['c']), { fault: 'unavailable' });
    });
  });
}
