import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as client from '@modelcontextprotocol/sdk/types.js';
import { LIST_KINDS } from '../model/server-catalog.ts';
import { portabilityFault, sanitizePage } from './list-page.ts';
import { listOf } from './methods.ts';

const TOOLS = listOf('tools');
const tool = (name: string, more = '') => `{"name":"${name}","inputSchema":{"type":"object"}${more}}`;

function page(...items: (string | Buffer)[]): Buffer {
  const parts = items.flatMap((item, i) => [Buffer.from(i === 0 ? '' : ','), Buffer.from(item as string)]);
  return Buffer.concat([Buffer.from('{"tools":['), ...parts, Buffer.from('],"nextCursor":"n"}')]);
}

const MALFORMED: Readonly<Record<string, string | Buffer>> = {
  NaN: tool('x', ',"a":NaN'),
  Infinity: tool('x', ',"a":-Infinity'),
  'a raw control character': tool('x', ',"a":"\u0001"'),
  'a raw line break': tool('x', ',"a":"\n"'),
  'a bad escape': tool('x', ',"a":"\\x41"'),
  'a trailing comma': tool('x', ','),
  'a trailing comma in an array': tool('x', ',"a":[1,]'),
  'a leading zero': tool('x', ',"a":01'),
  'invalid UTF-8': Buffer.concat([
    Buffer.from('{"inputSchema":{"type":"object"},"name":"x","a":"'),
    Buffer.from([0xff, 0x22, 0x7d]),
  ]),
  'one key twice': tool('x', ',"name":"y"'),
  'a key in another case': tool('x', ',"Name":"y"'),
  'nesting without end': tool('x', `,"a":${'['.repeat(600)}${']'.repeat(600)}`),
  'no object': '"x"',
  'a literal': 'NaN',
  'no name': '{"inputSchema":{"type":"object"}}',
  'a name that is a number': '{"name":5,"inputSchema":{"type":"object"}}',
  'a schema of another type': '{"name":"x","inputSchema":{"type":"string"}}',
  'a schema that is none': '{"name":"x","inputSchema":[]}',
  'a description that is null': tool('x', ',"description":null'),
  'a title that is a number': tool('x', ',"title":5'),
  'annotations that are a list': tool('x', ',"annotations":[]'),
};

test('one malformed item is left out and reported with its place, and the others stay', () => {
  for (const [what, item] of Object.entries(MALFORMED)) {
    const { page: sound, invalid } = sanitizePage(
      TOOLS,
      page(tool('a'), item, tool('b', ',"n":1.0,"big":12345678901234567890')),
      'stateful',
    );
    assert.equal(sound.toString(), page(tool('a'), tool('b', ',"n":1.0,"big":12345678901234567890')).toString(), what);
    assert.equal(client.ListToolsResultSchema.parse(JSON.parse(sound.toString())).tools.length, 2);
    assert.deepEqual([invalid.length, invalid[0]!.index], [1, 1], what);
    assert.notEqual(invalid[0]!.reason, '');
  }
});

test('a list that is no array counts as empty, and is reported', () => {
  for (const value of ['null', '{}', '"x"', `{"0":${tool('a')}}`]) {
    const { page: sound, invalid } = sanitizePage(TOOLS, Buffer.from(`{"tools":${value},"ttlMs":1}`), 'stateful');
    assert.equal(sound.toString(), '{"tools":[],"ttlMs":1}', value);
    assert.deepEqual(invalid, [{ index: 0, item: null, reason: '"tools" is no array' }], value);
  }
});

test('a page without faults is passed as it is, in any spelling', () => {
  const odd =
    '{ "description":"\\ud83d\\ude00 \\\\ud800", "x":{"a":1,"a":2}, "inputSchema" : {"type":"object"},"name":"x" }';
  for (const bytes of [page(), page(odd), page(tool('a'), odd)])
    assert.equal(sanitizePage(TOOLS, bytes, 'stateful').page, bytes);
  for (const kind of LIST_KINDS) {
    const bytes = Buffer.from(`{"${listOf(kind).resultKey}":[]}`);
    assert.equal(sanitizePage(listOf(kind), bytes, 'stateless').page, bytes);
  }
});

test('faults around the items are left out of the page, and so is a second list in another case', () => {
  for (const [written, expected] of [
    [`{"tools":[${tool('a')},],"nextCursor":"n"}`, `{"tools":[${tool('a')}],"nextCursor":"n"}`],
    [`{"_meta":{"x":NaN},"tools":[${tool('a')}]}`, `{"tools":[${tool('a')}]}`],
    [`{"tools":[${tool('a')}],"Tools":[${tool('b')}],"ttlMs":1}`, `{"tools":[${tool('a')}],"ttlMs":1}`],
    [`{"tools":[${tool('a')}],"tools":[${tool('b')}]}`, `{"tools":[${tool('a')}]}`],
  ] as const) {
    assert.equal(sanitizePage(TOOLS, Buffer.from(written), 'stateful').page.toString(), expected);
  }
});

test('prompts, resources and templates with members of another type than clients take are left out', () => {
  const cases = [
    ['prompts', '{"name":"p","arguments":{}}', client.ListPromptsResultSchema],
    ['resources', '{"uri":"a:b","name":"x","size":"big"}', client.ListResourcesResultSchema],
    ['resourceTemplates', '{"uriTemplate":"a:{b}","name":null}', client.ListResourceTemplatesResultSchema],
    ['resourceTemplates', '{"name":"x"}', client.ListResourceTemplatesResultSchema],
  ] as const;
  for (const [kind, item, schema] of cases) {
    const list = listOf(kind);
    const written = `{"${list.resultKey}":[${item}]}`;
    assert.ok(!schema.safeParse(JSON.parse(written)).success, `the official client takes ${written}`);
    const { page: sound, invalid } = sanitizePage(list, Buffer.from(written), 'stateful');
    assert.equal(sound.toString(), `{"${list.resultKey}":[]}`);
    assert.equal(invalid.length, 1);
  }
});

test('half a surrogate pair is found, and nothing that only resembles one', () => {
  for (const text of ['\\ud83d', '\\ude00', '\\ude00\\ud83d', '\\ud83d \\ude00', '\\\\\\uD800x']) {
    assert.match(portabilityFault(Buffer.from(`"${text}"`)), /surrogate/, text);
  }
  for (const text of ['\\ud83d\\ude00', '\\\\ud800', '\\u00e9', 'ud800']) {
    assert.equal(portabilityFault(Buffer.from(`"${text}"`)), '', text);
  }
});

test('a number that no double holds is found, and nothing that only resembles one', () => {
  for (const text of [
    '[1E400]',
    '{"a":[-1e999]}',
    `[${'9'.repeat(310)}]`,
    `{"a":${'9'.repeat(300)}e9}`,
    '["1",2.5e+308]',
  ]) {
    assert.match(portabilityFault(Buffer.from(text)), /number/, text);
  }
  for (const text of ['["1E400"]', '{"1E400":1}', '[1e308]', '[1e-400]', '["\\"1E400"]', `[0.${'9'.repeat(400)}]`]) {
    assert.equal(portabilityFault(Buffer.from(text)), '', text);
  }
});

test('S2.11 20,000 items of a page are read, valid or not, and the rest is left out', () => {
  const page = (items: readonly string[]) =>
    sanitizePage(TOOLS, Buffer.from(`{"tools":[${items.join(',')}],"nextCursor":"x"}`), 'stateful');
  const full = page(Array.from({ length: 20_000 }, (_, i) => tool(`t${i}`)));
  assert.ok(!full.cut);
  const mixed = page(Array.from({ length: 30_000 }, (_, i) => (i % 2 === 0 ? tool(`t${i}`) : '1')));
  const { tools, nextCursor } = JSON.parse(mixed.page.toString());
  assert.deepEqual([mixed.cut, mixed.invalid.length, tools.length, nextCursor], [true, 10_000, 10_000, 'x']);
});
