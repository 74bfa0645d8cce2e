import assert from 'node:assert/strict';
import { test } from 'node:test';
import { differences, VOLATILE } from './differences.ts';
import { parseExact } from './exact-json.ts';

const places = (before: string, after: string, ignored: readonly string[] = []) =>
  differences(parseExact(before), parseExact(after), ignored).map((place) => [place.path, place.before, place.after]);

test('numbers are compared as they are written, members in any order', () => {
  assert.deepEqual(places('{"a":12345678901234567890,"b":1}', '{"b":1,"a":12345678901234567890}'), []);
  assert.deepEqual(places('{"a":12345678901234567890}', '{"a":12345678901234567891}'), [
    ['$.a', '12345678901234567890', '12345678901234567891'],
  ]);
  assert.deepEqual(places('[1.0]', '[1]'), [['$[0]', '1.0', '1']]);
  assert.deepEqual(places('{"a":null}', '{}'), [['$.a', 'null', null]]);
  assert.deepEqual(places('{"a":[]}', '{"a":{}}'), [['$.a', '[]', '{}']]);
  assert.deepEqual(places('{"a":"1"}', '{"a":1}'), [['$.a', '"1"', '1']]);
});

test('items with names are compared by name, others by place', () => {
  const tools = (...names: string[]) => `{"tools":[${names.map((name) => `{"name":"${name}"}`).join(',')}]}`;
  assert.deepEqual(places(tools('a', 'b'), tools('b', 'a', 'c')), [['$.tools["c"]', null, '{"name":"c"}']]);
  assert.deepEqual(places('[{"name":"a","x":1},{"name":"a","x":2}]', '[{"name":"a","x":1},{"name":"a","x":3}]'), [
    ['$[1].x', '2', '3'],
  ]);
  assert.deepEqual(places('[1,2]', '[2]'), [
    ['$[0]', '1', '2'],
    ['$[1]', '2', null],
  ]);
});

test('an ignored path covers everything within it, and no neighbour', () => {
  const [before, after] = ['{"a":{"b":1,"bc":1},"l":[{"t":1},{"t":2}]}', '{"a":{"b":2,"bc":2},"l":[{"t":3},{"t":4}]}'];
  assert.deepEqual(
    places(before, after, ['$.a.b', '$.l[*].t']).map(([path]) => path),
    ['$.a.bc'],
  );
  assert.deepEqual(places(before, after, ['$.a', '$.l']), []);
  assert.deepEqual(
    places(before, after, ['$.*', '$.l[1]']).map(([path]) => path),
    [],
  );
  const meta = (trace: string) => `{"result":{"_meta":{"traceparent":"${trace}","io.modelcontextprotocol/x":1}}}`;
  assert.deepEqual(places(meta('1'), meta('2'), VOLATILE), []);
});
