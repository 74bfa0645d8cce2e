import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  componentOf,
  count,
  described,
  faultIn,
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

test('the fault names the path of the first part that does not match, and what is expected there', () => {
  const OFFER = union(object({ command: text }), object({ document: { ...list(count), minItems: 1, maxItems: 2 } }));
  for (const [schema, value, fault] of [
    [LIST, 5, 'it has to be an object'],
    [LIST, { items: [] }, 'last is missing'],
    [LIST, { items: [{ kind: 'b' }], last: null, names: {} }, 'items[0].n is missing'],
    [LIST, { items: [], last: { kind: 'c', n: 1 }, names: {} }, 'last.kind has to be one of a, b'],
    [LIST, { items: [], last: { kind: 'a', n: -1 }, names: {} }, 'last.n has to be a whole number of at least 0'],
    [LIST, { items: [], last: 'x', names: {} }, 'last has to be an object or null'],
    [LIST, { items: [], last: null, names: { ['k'.repeat(65)]: 1 } }, `names.${'k'.repeat(64)} has to be a text`],
    [OFFER, {}, 'command is missing, or document is missing'],
    [OFFER, { document: [] }, 'command is missing, or document has to be a list of at least 1 and at most 2'],
    [nullable(text), 1, 'it has to be a text or null'],
    [union(text, count), 'x', null],
  ] as const) {
    assert.equal(faultIn(schema, value), fault);
  }
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
