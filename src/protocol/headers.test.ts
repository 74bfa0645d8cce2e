import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeHeaderValue, encodeHeaderValue, headerValue, MAX_HEADER_VALUE } from './headers.ts';

test('proto:H6 plain texts stay plain, others go between the sentinels', () => {
  const pairs: [string, string][] = [
    ['us-west1', 'us-west1'],
    ['us west 1', 'us west 1'],
    ['a\tb', 'a\tb'],
    ['Hello, 世界', '=?base64?SGVsbG8sIOS4lueVjA==?='],
    [' padded ', '=?base64?IHBhZGRlZCA=?='],
    ['\tindented', '=?base64?CWluZGVudGVk?='],
    ['line1\nline2', '=?base64?bGluZTEKbGluZTI=?='],
    ['=?base64?literal?=', '=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?='],
    ['', '=?base64??='],
    ['=?base64?', '=?base64?'],
  ];
  for (const [text, header] of pairs) {
    assert.equal(encodeHeaderValue(text), header);
    assert.equal(decodeHeaderValue(header), text);
  }
});

test('proto:H2 optional white space is removed, base64 is strict, sentinels are lower case', () => {
  assert.equal(decodeHeaderValue('  name\t'), 'name');
  assert.equal(decodeHeaderValue(' =?base64?SGVsbG8=?= '), 'Hello');
  const broken = ['SGVsbG8', 'SGVs!!!bG8=', 'SGVsbG9=', 'SGVs bG8=', 'SGVsbG8==', '=', '_-8=', '/w==', 'SGVsbG8=\n'];
  for (const base64 of broken) assert.equal(decodeHeaderValue(`=?base64?${base64}?=`), null, base64);
  for (const literal of ['SGVsbG8=', '=?base64?SGVsbG8=', 'SGVsbG8=?=', '=?BASE64?SGVsbG8=?=', '=?base64?=']) {
    assert.equal(decodeHeaderValue(literal), literal);
  }
  for (const bad of ['a\u0000b', 'a\rb', 'a\nb', 'caf\u00e9', 'a\u007fb']) assert.equal(decodeHeaderValue(bad), null);
});

test('proto:H7 an oversize value is refused before it is decoded', () => {
  assert.equal(decodeHeaderValue('x'.repeat(MAX_HEADER_VALUE + 1)), null);
  assert.equal(decodeHeaderValue(`=?base64?${'QUFB'.repeat(MAX_HEADER_VALUE / 4)}?=`), null);
  assert.equal(decodeHeaderValue('x'.repeat(MAX_HEADER_VALUE))?.length, MAX_HEADER_VALUE);
});

test('a header that was sent twice is one value that equals neither', () => {
  assert.equal(headerValue({ 'mcp-name': ['a', 'a'] }, 'mcp-name'), 'a, a');
  assert.equal(headerValue({ 'mcp-name': ' a ' }, 'mcp-name'), 'a');
  assert.equal(headerValue({}, 'mcp-name'), null);
});

test('any text survives a header', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const header = encodeHeaderValue(text);
      assert.match(header, /^[\t\x20-\x7e]*$/);
      assert.equal(decodeHeaderValue(header), Buffer.from(text).toString());
    }),
  );
});
