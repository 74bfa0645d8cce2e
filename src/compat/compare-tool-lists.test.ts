import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareToolLists, type ToolMeta, toolChanges } from './compare-tool-lists.ts';

const tool = (name: string, inputSchema: unknown = { type: 'object' }, description = 'd'): ToolMeta => ({
  name,
  description,
  inputSchema,
});
const kind = (before: readonly ToolMeta[] | null, after: readonly ToolMeta[] | null) =>
  compareToolLists(before, after).kind;

test('S4.19 no list, the empty list and equal lists do not differ', () => {
  assert.deepEqual(compareToolLists(null, []), { kind: 'none', message: '' });
  assert.equal(compareToolLists(undefined, undefined).kind, 'none');
  assert.equal(kind([tool('a'), tool('b')], [tool('a'), tool('b')]), 'none');
});

test('S4.19 a name that occurs twice in either list is structured, before any other class', () => {
  assert.equal(kind([tool('a'), tool('a')], []), 'structured');
  const report = compareToolLists([], [tool('new'), tool('b'), tool('b')]);
  assert.deepEqual(report, { kind: 'structured', message: 'the tool name b occurs twice' });
});

test('S4.19 check:G1 only the first class is reported: added, removed, reordered, then the kind of change', () => {
  const before = [tool('a'), tool('b')];
  assert.deepEqual(compareToolLists(before, [tool('b'), tool('c'), tool('d')]), {
    kind: 'added',
    message: 'added: c, d',
  });
  assert.equal(kind(before, [tool('b', {}, 'other')]), 'removed');
  assert.deepEqual(compareToolLists(before, [tool('b', {}, 'other'), tool('a')]), {
    kind: 'reordered',
    message: 'reordered from a on',
  });
  assert.deepEqual(compareToolLists(before, [tool('a'), tool('b', { type: 'object' }, 'other')]), {
    kind: 'structured',
    message: 'b: its description changed',
  });
  assert.equal(compareToolLists(before, [tool('a', {}), tool('b', {})]).message, 'a: its input schema changed');
});

test('S4.19 schemas are compared by structure: order of members does not count, order of elements and digits do', () => {
  const same = (a: unknown, b: unknown) => kind([tool('a', a)], [tool('a', b)]) === 'none';
  assert.ok(same('{"a":1,"b":{"c":2,"d":3}}', ' { "b" : {"d":3.0,"c":2}, "a":1e0 }'));
  assert.ok(same('{"\\u0061":"\\u00e9"}', { a: 'é' }));
  assert.equal(kind([{ name: 'a' }], [{ name: 'a', description: '', inputSchema: null }]), 'none');
  assert.ok(!same('{"required":["a","b"]}', '{"required":["b","a"]}'));
  assert.ok(!same('{"maximum":12345678901234567890}', '{"maximum":12345678901234567891}'));
  assert.ok(!same('{"a":null}', '{}'));
  assert.ok(!same('{"__proto__":{"a":1}}', '{}'));
  assert.ok(!same('{"a":[["members",1]]}', '{"members":[["a",1]]}'));
});

test('S4.19 an unreadable schema differs, even from itself; one of any depth does not', () => {
  assert.equal(kind([tool('a', '{"a":')], [tool('a', '{"a":')]), 'structured');
  const deep = (value: string) => `${'['.repeat(200_000)}${value}${']'.repeat(200_000)}`;
  assert.equal(kind([tool('a', deep('1'))], [tool('a', deep('1'))]), 'none');
  assert.equal(kind([tool('a', deep('1'))], [tool('a', deep('2'))]), 'structured');
});

test('S4.20 changes of a set of tools by full name, sorted', () => {
  const before = [tool('mcp__s__gone'), tool('mcp__s__kept'), tool('mcp__s__worded'), tool('mcp__s__bent')];
  const after = [
    tool('mcp__s__new'),
    tool('mcp__s__bent', { type: 'object', required: ['x'] }),
    tool('mcp__s__worded', { type: 'object' }, 'other words'),
    tool('mcp__s__kept'),
    tool('mcp__a__new'),
  ];
  assert.deepEqual(toolChanges(before, after), [
    { kind: 'tool_added', toolName: 'mcp__a__new' },
    { kind: 'tool_schema_changed', toolName: 'mcp__s__bent' },
    { kind: 'tool_removed', toolName: 'mcp__s__gone' },
    { kind: 'tool_added', toolName: 'mcp__s__new' },
    { kind: 'tool_schema_changed', toolName: 'mcp__s__worded' },
  ]);
  assert.deepEqual(toolChanges(after, after), []);
});
