import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canonical, fingerprint } from './canonical.ts';

test('member order, white space and escapes do not count; number lexemes do', () => {
  assert.equal(
    canonical(' { "b" : [ 1 , {"y":null,"x":"\\u0061\\/"} ] , "a":1.0 } '),
    '{"a":1.0,"b":[1,{"x":"a/","y":null}]}',
  );
  assert.equal(canonical('12345678901234567890'), '12345678901234567890');
  assert.notEqual(canonical('{"a":1}'), canonical('{"a":1.0}'));
  assert.equal(canonical('{"é":1,"\\u00e9":2}'), '{"é":2}');
  assert.equal(canonical(Buffer.from('[]')), '[]');
});

test('the fingerprint of capabilities depends on their meaning', () => {
  assert.equal(fingerprint(''), '{}');
  assert.equal(fingerprint(' { } '), '{}');
  assert.match(fingerprint('{"roots":{}}'), /^[0-9a-f]{16}$/);
  assert.equal(fingerprint('{"roots":{},"sampling":{}}'), fingerprint('{"sampling":{ },"roots":{}}'));
  assert.notEqual(fingerprint('{"roots":{}}'), fingerprint('{"roots":{"listChanged":true}}'));
});

test('nested objects are sorted at every level, and broken text ends without an error', () => {
  const nested = (first: string, second: string) =>
    `${`{${first},"a":[2,`.repeat(250)}null${`],${second}}`.repeat(250)}`;
  assert.equal(canonical(nested('"c":3', '"b":"x"')), canonical(nested(' "b" : "\\u0078" ', '"c":3 ')));
  assert.equal(canonical('{"b":{"d":[],"c":{}},"a":[[1,{}],"]"]}'), '{"a":[[1,{}],"]"],"b":{"c":{},"d":[]}}');
  for (const text of ['', '{', '{"a"', '{"a":', '{"a":1', '[1,', '[1}', '{"a":[}', ']', '"a', '[,]']) canonical(text);
});

test('a large value costs the same at any depth', () => {
  const text = `"${'x'.repeat(8 << 20)}"`;
  const timeOf = (depth: number, open: string, close: string): number => {
    const json = Buffer.from(open.repeat(depth) + text + close.repeat(depth));
    const started = performance.now();
    assert.equal(canonical(json).length, json.length);
    return performance.now() - started;
  };
  for (const [open, close] of [
    ['[1,', ']'],
    ['{"a":1,"b":', '}'],
  ] as const) {
    const flat = Math.max(timeOf(1, open, close), timeOf(1, open, close));
    const deep = Math.min(timeOf(500, open, close), timeOf(500, open, close));
    assert.ok(deep < 8 * flat, `${deep} ms, and ${flat} ms when it is not nested`);
  }
});

test('endless nesting neither overflows nor takes long', () => {
  const deep = `${'[{"a":'.repeat(5_000)}"${'x'.repeat(4 << 20)}"${'}]'.repeat(5_000)}`;
  const started = performance.now();
  assert.equal(canonical(deep).length, deep.length);
  assert.ok(performance.now() - started < 5_000);
  assert.doesNotThrow(() => canonical('['.repeat(100_000)));
});
