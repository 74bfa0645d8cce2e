import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  componentOf,
  count,
  described,
  type Infer,
  list,
  matches,
  named,
  nullable,
  object,
  oneOf,
  optional,
  record,
  text,
  union,
} from './schema.ts';

const ITEM = named('Item', object({ kind: oneOf(['a', 'b']), n: count, note: optional(described(text, 'x')) }));
const LIST = object({ items: { ...list(ITEM), maxItems: 2 }, last: nullable(ITEM), names: record(text) });

test('a schema describes what its type describes: required, optional and nullable members', () => {
  const good: Infer<typeof LIST> = { items: [{ kind: 'a', n: 1 }], last: null, names: { x: 'y' } };
  assert.ok(matches(LIST, good));
  const item = { kind: 'b', n: 0, note: 'z' };
  for (const [value, valid] of [
    [{ ...good, last: item }, true],
    [{ ...good, more: 1 }, true],
    [{ ...good, last: undefined }, false],
    [{ items: good.items, names: {} }, false],
    [{ ...good, items: [item, item, item] }, false],
    [{ ...good, items: [{ ...item, kind: 'c' }] }, false],
    [{ ...good, items: [{ ...item, n: -1 }] }, false],
    [{ ...good, items: [{ ...item, n: 1.5 }] }, false],
    [{ ...good, items: [{ ...item, note: 5 }] }, false],
    [{ ...good, names: { x: 1 } }, false],
    [[], false],
    [null, false],
    ['text', false],
  ] as const) {
    assert.equal(matches(LIST, value), valid, JSON.stringify(value));
  }
  assert.deepEqual(
    [1, 'x', null].map((value) => matches(union(text, count), value)),
    [true, true, false],
  );
  assert.equal(matches(nullable(text), null), true);
});

test('members that Object.prototype has are not taken for members of a value', () => {
  const odd = object({ toString: text });
  assert.equal(matches(odd, {}), false);
  assert.equal(matches(object({}), JSON.parse('{"__proto__":1}')), true);
});

test('a description does not change the component and the option of a schema', () => {
  assert.equal(componentOf(described(ITEM, 'other words'))?.name, 'Item');
  assert.deepEqual(object({ a: described(optional(text), 'x') })['required'], []);
});
