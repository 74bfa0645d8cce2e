import assert from 'node:assert/strict';
import { test } from 'node:test';
import { duplicateKey, elements, entries, field, fieldAt, fields, stringValue, text } from './fields.ts';

const JSON_TEXT = ' {"a" : 1.0, "b":{"a":"in\\"ner"},"n\\u0061me":"é\\n","e":[] , "z":[1,"]",{"x":[2]}] } ';
const BYTES = Buffer.from(JSON_TEXT);
const START = 1;
const END = BYTES.length;

function value(key: string): string | null {
  const range = field(BYTES, START, END, key);
  return range === null ? null : text(BYTES, range);
}

test('a member is found at the top level only, its value as written', () => {
  assert.equal(value('a'), '1.0');
  assert.equal(value('b'), '{"a":"in\\"ner"}');
  assert.equal(value('name'), '"é\\n"');
  assert.equal(value('z'), '[1,"]",{"x":[2]}]');
  assert.equal(value('x'), null);
  assert.equal(value('in"ner'), null);
});

test('a key beyond ASCII is compared as text', () => {
  const bytes = Buffer.from('{"schlüssel":1,"\\ud83d\\ude00":2}');
  assert.equal(text(bytes, field(bytes, 0, bytes.length, 'schlüssel')!), '1');
  assert.equal(text(bytes, field(bytes, 0, bytes.length, '😀')!), '2');
});

test('a path goes through objects', () => {
  assert.equal(stringValue(BYTES, fieldAt(BYTES, START, END, ['b', 'a'])), 'in"ner');
  assert.equal(fieldAt(BYTES, START, END, ['a', 'b']), null);
});

test('one pass finds several members', () => {
  const [z, missing, a] = fields(BYTES, START, END, ['z', 'missing', 'a']);
  assert.equal(text(BYTES, z!), '[1,"]",{"x":[2]}]');
  assert.equal(missing, null);
  assert.equal(text(BYTES, a!), '1.0');
});

test('members and elements come in order', () => {
  const keys = Array.from(entries(BYTES, START, END), (e) => BYTES.toString('utf8', e.keyStart, e.keyEnd));
  assert.deepEqual(keys, ['"a"', '"b"', '"n\\u0061me"', '"e"', '"z"']);
  const z = field(BYTES, START, END, 'z')!;
  assert.deepEqual(
    Array.from(elements(BYTES, z.start, z.end), (range) => text(BYTES, range)),
    ['1', '"]"', '{"x":[2]}'],
  );
  const e = field(BYTES, START, END, 'e')!;
  assert.deepEqual([...elements(BYTES, e.start, e.end)], []);
});

test('values of another type have no members', () => {
  for (const json of ['1', '"{}"', 'null', '[]', '{}', '{"a"}', '{"a":}', '{']) {
    const bytes = Buffer.from(json);
    assert.equal(field(bytes, 0, bytes.length, 'a'), null, json);
    assert.deepEqual([...entries(bytes, 0, bytes.length)], [], json);
    assert.equal(stringValue(Buffer.from('12'), { start: 0, end: 2 }), null);
  }
});

test('a repeated key is named in any spelling', () => {
  const repeated = (json: string): string | null => duplicateKey(Buffer.from(json), 0, Buffer.byteLength(json));
  assert.equal(repeated('{"name":1,"x":{"name":2}}'), null);
  assert.equal(repeated('{"name":1,"n\\u0061me":2}'), 'name');
  assert.equal(repeated('{"__proto__":1,"constructor":2}'), null);
});

test('strings are decoded, lone surrogates too', () => {
  const decode = (json: string) => stringValue(Buffer.from(json), { start: 0, end: Buffer.byteLength(json) });
  assert.equal(decode('"plain"'), 'plain');
  assert.equal(decode('"\\ud83d\\ude00 ü\\u0000"'), '😀 ü\u0000');
  assert.equal(decode('"\\ud800"'), '\ud800');
  assert.equal(decode('"a","b"'), null);
  assert.equal(decode('""'), '');
});
