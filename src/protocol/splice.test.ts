import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../model/message.ts';
import { text } from './fields.ts';
import { isScanFailure, scanMessage } from './scan.ts';
import { editMembers, oneLine, splice, spliceMessage, spliceParts, withBody, withId } from './splice.ts';

function message(json: string): Message {
  const scanned = scanMessage(Buffer.from(json), 'stateful', 'relaxed');
  assert.ok(!isScanFailure(scanned));
  return scanned;
}

function edited(json: string, changes: [string, string | null][]): string {
  const bytes = Buffer.from(json);
  return splice(bytes, editMembers(bytes, { start: 0, end: bytes.length }, changes)).toString();
}

test('edits replace, insert and remove, in any order, and keep the rest', () => {
  const bytes = Buffer.from('0123456789');
  const edits = [
    { start: 8, end: 9, insert: 'é' },
    { start: 0, end: 0, insert: '<' },
    { start: 2, end: 5, insert: Buffer.from('') },
  ];
  assert.equal(splice(bytes, edits).toString(), '<01567é9');
  assert.equal(splice(bytes, []), bytes);
  assert.deepEqual(spliceParts(bytes, edits).map(String), ['<01567é9']);
  const big = Buffer.from(`0123456789${'x'.repeat(40_000)}`);
  const parts = spliceParts(big, edits);
  assert.equal(Buffer.concat(parts).toString(), `<01567é9${'x'.repeat(40_000)}`);
  assert.equal(parts.at(-1)!.buffer, big.buffer, 'the unchanged rest of large bytes is a view');
  assert.throws(
    () =>
      splice(bytes, [
        { start: 1, end: 4, insert: '' },
        { start: 3, end: 5, insert: '' },
      ]),
    RangeError,
  );
});

test('check:B12 another id leaves every other byte as it was', () => {
  const rest = ', "method" : "m","params":{"n":1E400,"b":12345678901234567890,"z":-0},"x":1.0 }';
  const given = message(`{"jsonrpc":"2.0" ,"id" :  "cli\\u00e9nt"${rest}`);
  assert.equal(Buffer.concat(withId(given, '41')).toString(), `{"jsonrpc":"2.0" ,"id" :  41${rest}`);
  const big = message(`{"id":1,"jsonrpc":"2.0","result":{"t":"${'x'.repeat(40_000)}"}}`);
  const parts = withId(big, '"b"');
  assert.equal(Buffer.concat(parts).toString(), big.bytes.toString().replace('"id":1', '"id":"b"'));
  assert.equal(parts[2]!.buffer, big.bytes.buffer, 'a large body is not copied');
});

test('S2.15 an id with characters beyond ASCII stays unchanged', () => {
  const given = message('{"jsonrpc":"2.0","id":"ключ","method":"m"}');
  assert.equal(
    Buffer.concat(withId(message('{"jsonrpc":"2.0","id":1,"result":{}}'), given.id)).toString(),
    '{"jsonrpc":"2.0","id":"ключ","result":{}}',
  );
});

test('an answer without an id gets one', () => {
  const nothing = message('{"jsonrpc":"2.0","error":{"code":1,"message":""}}');
  assert.equal(
    Buffer.concat(withId(nothing, '3')).toString(),
    '{"id":3,"jsonrpc":"2.0","error":{"code":1,"message":""}}',
  );
  const nulled = message('{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}');
  assert.equal(
    Buffer.concat(withId(nulled, '3')).toString(),
    '{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":""}}',
  );
});

test('a spliced message has the right envelope and position of its body', () => {
  const given = message('{"jsonrpc":"2.0","params":{"name":"a","n":1.0},"id":"x","method":"m"}');
  const name = { start: given.bodyStart + 8, end: given.bodyStart + 11 };
  assert.equal(text(given.bytes, name), '"a"');
  const changed = spliceMessage(given, [{ ...name, insert: '"longer é"' }], 'stateless');
  assert.equal(changed.body.toString(), '{"name":"longer é","n":1.0}');
  assert.deepEqual([changed.id, changed.method, changed.kind, changed.era], ['"x"', 'm', 'request', 'stateless']);
  assert.equal(spliceMessage(given, []), given);
  const replaced = withBody(given, '{}');
  assert.deepEqual([replaced.body.toString(), replaced.id], ['{}', '"x"']);
  const added = withBody(message('{"jsonrpc":"2.0","id":1,"method":"m"}'), '{"a":1}');
  assert.equal(added.bytes.toString(), '{"params":{"a":1},"jsonrpc":"2.0","id":1,"method":"m"}');
  assert.deepEqual([added.body.toString(), added.id, added.kind], ['{"a":1}', '1', 'request']);
});

test('members are set in place or put first', () => {
  assert.equal(edited('{ }', [['a', '1']]), '{"a":1 }');
  assert.equal(edited('{"b":2}', [['a', '1']]), '{"a":1,"b":2}');
  assert.equal(
    edited('{"b":2, "a" : [1] }', [
      ['a', '1.0'],
      ['é"', '0'],
    ]),
    '{"é\\"":0,"b":2, "a" : 1.0 }',
  );
  assert.equal(
    edited('{}', [
      ['a', '1'],
      ['b', '2'],
    ]),
    '{"a":1,"b":2}',
  );
});

test('members are removed with the right comma', () => {
  assert.equal(edited('{"a":1,"b":2,"c":3}', [['a', null]]), '{"b":2,"c":3}');
  assert.equal(edited('{"a":1, "b":2, "c":3}', [['b', null]]), '{"a":1, "c":3}');
  assert.equal(edited('{"a":1 , "c":3 }', [['c', null]]), '{"a":1 }');
  assert.equal(edited('{ "a":1 }', [['a', null]]), '{  }');
  assert.equal(
    edited('{"a":1,"b":2,"c":3}', [
      ['b', null],
      ['c', null],
    ]),
    '{"a":1}',
  );
  assert.equal(
    edited('{"a":1,"b":2,"c":3}', [
      ['a', null],
      ['b', null],
      ['c', null],
    ]),
    '{}',
  );
  assert.equal(
    edited('{"a":1}', [
      ['a', null],
      ['n', '2'],
    ]),
    '{"n":2}',
  );
  assert.equal(
    edited('{"a":1,"b":2}', [
      ['a', null],
      ['n', '2'],
    ]),
    '{"n":2,"b":2}',
  );
  assert.equal(edited('{"a":1,"b":2,"a":3}', [['a', null]]), '{"b":2}');
  assert.equal(edited('{"a":1}', [['x', null]]), '{"a":1}');
  const bytes = Buffer.from('{"a":1}');
  assert.equal(splice(bytes, editMembers(bytes, { start: 0, end: 7 }, [['x', null]])), bytes);
});

test('check:B12 a pretty-printed document becomes one line, its strings untouched', () => {
  const value = { a: ['x\\', '"\n\r', { n: 1 }], 'k\n': '\\"' };
  const pretty = Buffer.from(JSON.stringify(value, null, 2).replaceAll('\n', '\r\n'));
  const line = oneLine(pretty);
  assert.ok(!line.includes(0x0a) && !line.includes(0x0d));
  assert.deepEqual(JSON.parse(line.toString()), value);
  const flat = Buffer.from('{"a":1}');
  assert.equal(oneLine(flat), flat);
});

test('a raw line break inside a string cannot break out of its frame', () => {
  const forged = Buffer.from('{"a":"x\n\r\ndata: y\\\nz\\"\n"}\n');
  const line = oneLine(forged);
  assert.equal(line.toString(), '{"a":"x\\n\\r\\ndata: y\\\\nz\\"\\n"} ');
  assert.ok(JSON.parse(line.toString()));
});
