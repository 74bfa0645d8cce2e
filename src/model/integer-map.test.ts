import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { IntegerMap } from './integer-map.ts';

type Step = readonly ['set' | 'delete' | 'clear', number];

test('the map holds the same entries as a Map, in any order of additions and removals', () => {
  // Some numbers are close together, some collide, some are too large for 32 bits.
  const number = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(64, 128, 2 ** 31, 2 ** 32, 2 ** 40 + 1));
  const step = fc.tuple(fc.constantFrom('set', 'set', 'delete', 'delete'), number) as fc.Arbitrary<Step>;
  const steps = fc.array(
    fc.oneof({ weight: 60, arbitrary: step }, { weight: 1, arbitrary: fc.constant(['clear', 0] as Step) }),
    {
      maxLength: 300,
    },
  );
  fc.assert(
    fc.property(steps, (all) => {
      const held = new IntegerMap<string>();
      const map = new Map<number, string>();
      for (const [index, [what, n]] of all.entries()) {
        if (what === 'delete') assert.equal(held.delete(n), map.delete(n));
        else if (what === 'clear') {
          held.clear();
          map.clear();
        } else {
          held.set(n, `${n} ${index}`);
          map.set(n, `${n} ${index}`);
        }
        assert.equal(held.size, map.size);
        assert.equal(held.has(n), map.has(n));
        assert.equal(held.get(n), map.get(n));
      }
      const numbers = [...map.keys()];
      assert.deepEqual(held.numbers(), numbers);
      assert.deepEqual(
        held.inOrder(),
        numbers.map((n) => map.get(n)),
      );
      assert.deepEqual(held.values().sort(), held.inOrder().sort());
      const even = (value: string): boolean => Number(value.split(' ')[0]) % 2 === 0;
      assert.equal(held.last(even), held.inOrder().findLast(even));
      for (const n of numbers) assert.equal(held.get(n), map.get(n));
    }),
  );
});

test('a value that is no valid number has no entry', () => {
  const held = new IntegerMap<string>();
  held.set(7, 'seven');
  for (const number of [0, -1, Number.NaN, 7.5, 8]) {
    assert.equal(held.get(number), undefined);
    assert.equal(held.delete(number), false);
  }
  assert.deepEqual(held.values(), ['seven']);
});

test('a thousand entries are added and removed, again and again', () => {
  const held = new IntegerMap<number>();
  for (let round = 0, number = 0; round < 3; round++) {
    for (let i = 0; i < 1_000; i++) held.set(++number, i);
    assert.deepEqual(held.inOrder().slice(0, 3), [0, 1, 2]);
    for (const known of held.numbers()) assert.ok(held.delete(known));
    assert.equal(held.size, 0);
    assert.equal(held.get(number), undefined);
  }
});
