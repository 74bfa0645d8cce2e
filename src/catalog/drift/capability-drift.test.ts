import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Capability } from '../../model/server-catalog.ts';
import { capabilityDrift } from './capability-drift.ts';

const item = (key: string, json: string): Capability => ({ key, bytes: Buffer.from(json) });

test('S4.19 the full difference has every field of every list, unknown ones included', () => {
  const before = {
    tools: [
      item('same', '{"name":"same","n":1.0}'),
      item('gone', '{"name":"gone"}'),
      item(
        'bent',
        '{"name":"bent","description":"a","inputSchema":{"properties":{"a/b":{"type":"string"},"c":{}}},"x-new":[1]}',
      ),
    ],
    resources: [item('file:///a', '{"uri":"file:///a","mimeType":"text/plain"}')],
  };
  const after = {
    tools: [
      item('same', '{ "n":1, "name":"same" }'),
      item(
        'bent',
        '{"name":"bent","description":"b","inputSchema":{"properties":{"a/b":{"type":"number"},"d":{}}},"x-new":[2]}',
      ),
      item('new', '{"name":"new"}'),
    ],
    resources: [item('file:///a', '{"uri":"file:///a"}')],
    prompts: [item('p', '{"name":"p"}')],
  };
  const drift = capabilityDrift(before, after);
  assert.deepEqual(drift.reordered, []);
  assert.deepEqual(drift.changes, [
    {
      list: 'tools',
      kind: 'changed',
      key: 'bent',
      fields: [
        { pointer: '/description', before: '"a"', after: '"b"' },
        { pointer: '/inputSchema/properties/a~1b/type', before: '"string"', after: '"number"' },
        { pointer: '/inputSchema/properties/c', before: '{}', after: null },
        { pointer: '/inputSchema/properties/d', before: null, after: '{}' },
        { pointer: '/x-new', before: '[1]', after: '[2]' },
      ],
    },
    { list: 'tools', kind: 'removed', key: 'gone', fields: [] },
    { list: 'tools', kind: 'added', key: 'new', fields: [] },
    { list: 'prompts', kind: 'added', key: 'p', fields: [] },
    {
      list: 'resources',
      kind: 'changed',
      key: 'file:///a',
      fields: [{ pointer: '/mimeType', before: '"text/plain"', after: null }],
    },
  ]);
});

test('S4.19 another order of keys and duplicate keys are distinguished from changes', () => {
  const [a, b] = [item('a', '{"name":"a"}'), item('b', '{"name":"b"}')];
  const drift = capabilityDrift({ tools: [a, b], prompts: [a] }, { tools: [b, a], prompts: [a, a] });
  assert.deepEqual(drift, { changes: [], reordered: ['tools'], twice: [{ list: 'prompts', key: 'a' }] });
});

test('S4.19 members that cannot be distinguished by name are compared whole', () => {
  const drift = capabilityDrift({ tools: [item('a', '{"x":1,"x":2}')] }, { tools: [item('a', '{"x":3,"x":1}')] });
  assert.deepEqual(drift.changes[0]!.fields, [{ pointer: '', before: '{"x":1,"x":2}', after: '{"x":3,"x":1}' }]);
});
