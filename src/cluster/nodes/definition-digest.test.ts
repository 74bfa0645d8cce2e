import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import type { Server, StdioSpec } from '../../model/server.ts';
import { definitionDigest } from './definition-digest.ts';

const KEY = Buffer.alloc(32, 7);

const plain = serverNamed('memory');
const stdio = plain.transport as StdioSpec;

/** What makes it another server for other nodes, field by field. */
const COUNTED: Readonly<Record<string, Partial<Server>>> = {
  name: { name: 'other' },
  command: { transport: { ...stdio, command: 'other' } },
  arguments: { transport: { ...stdio, args: ['other'] } },
  'the system user': { transport: { ...stdio, runAs: { user: 'mcp', processes: null } } },
  isolation: { isolation: 'principal' },
  'isolation header': { isolationHeader: 'x-tenant' },
  singleton: { singleton: true },
  timeout: { timeoutMs: 1 },
  'timeout of a tool': { toolTimeoutMs: new Map([['a', 1]]) },
  retry: { retry: 'always' },
  trust: { trusted: true },
  'what is kept': { cache: !plain.cache },
  'tools offered': { tools: { include: new Set(['a']), exclude: new Set() } },
  'tools withheld': { tools: { include: null, exclude: new Set(['a']) } },
  'longest message': { limits: { ...plain.limits, maxMessageBytes: 1 } },
};

/** What each node decides for itself, and what only people read. */
const NOT_COUNTED: Partial<Server> = {
  description: 'other',
  replicas: 3,
  start: plain.start === 'lazy' ? 'eager' : 'lazy',
  probeMs: 1,
  drift: 'block',
  temporary: true,
  enabled: !plain.enabled,
  limits: { ...plain.limits, maxProcesses: 1 },
  connectionDigest: 'other',
};

for (const [what, change] of Object.entries(COUNTED)) {
  test(`S0.18 nodes whose files differ in ${what} do not mean the same server`, () => {
    assert.notEqual(definitionDigest({ ...plain, ...change }, KEY), definitionDigest(plain, KEY));
  });
}

test('S0.18 what each node decides for itself makes no other server of it', () => {
  assert.equal(definitionDigest({ ...plain, ...NOT_COUNTED }, KEY), definitionDigest(plain, KEY));
});

test('every field of a server is counted, or said not to be', () => {
  const said = new Set([...Object.values(COUNTED), NOT_COUNTED].flatMap((change) => Object.keys(change)));
  // `onlyFor` is never offered to other nodes; of `origin` the folder is counted, by what is relative to it.
  const silent = Object.keys(plain).filter((field) => !said.has(field) && !['onlyFor', 'origin'].includes(field));
  assert.deepEqual(silent, []);
});
