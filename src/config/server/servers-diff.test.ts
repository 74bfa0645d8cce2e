import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asSecrets } from '../../../test/support/as-secrets.ts';
import { Secret } from '../../model/secret.ts';
import type { HttpSpec, Server, StdioSpec } from '../../model/server.ts';
import { diffServers } from '../../model/servers-diff.ts';
import { argvServer, connectionDigest } from './plain-server.ts';

const STDIO: StdioSpec = {
  type: 'stdio',
  command: 'a',
  args: ['1', '2'],
  env: asSecrets({ A: '1', B: '2' }),
  inheritEnv: ['X', 'Y'],
  cwd: '/',
};
const HTTP: HttpSpec = {
  type: 'http',
  url: 'https://x/',
  headers: asSecrets({ A: '1' }),
  tls: { key: new Secret('k') },
};
const BASE = argvServer(['a'], '/')!;

function server(change: Partial<Server> & { readonly maxMessageBytes?: number } = {}): Server {
  const made = { ...BASE, transport: STDIO, ...change };
  const maxMessageBytes = change.maxMessageBytes ?? made.limits.maxMessageBytes;
  return { ...made, connectionDigest: connectionDigest({ ...made, maxMessageBytes }) };
}

function kind(before: Server, after: Server): string {
  const diff = diffServers(new Map([['s', before]]), new Map([['s', after]]));
  return Object.entries(diff).find(([, names]) => names.includes('s'))![0];
}

const RECONNECT: readonly [what: string, after: Server][] = [
  ['the command', server({ transport: { ...STDIO, command: 'b' } })],
  ['the order of arguments', server({ transport: { ...STDIO, args: ['2', '1'] } })],
  ['a variable', server({ transport: { ...STDIO, env: asSecrets({ A: '1', B: '3' }) } })],
  ['a variable less', server({ transport: { ...STDIO, env: asSecrets({ A: '1' }) } })],
  ['what is inherited', server({ transport: { ...STDIO, inheritEnv: true } })],
  ['the folder', server({ transport: { ...STDIO, cwd: '/tmp' } })],
  ['the type', server({ transport: HTTP })],
  ['who shares it', server({ isolation: 'shared' })],
  ['the longest message', server({ maxMessageBytes: 5000 })],
];

for (const [what, after] of RECONNECT)
  test(`a change of ${what} needs a new connection`, () => assert.equal(kind(server(), after), 'changed'));

for (const [what, change] of [
  ['the url', { url: 'https://y/' }],
  ['a header', { headers: asSecrets({ A: '2' }) }],
  ['the key', { tls: { key: new Secret('other') } }],
  ['the type', { type: 'sse' }],
] as const) {
  test(`a change of ${what} of a remote server needs a new connection`, () =>
    assert.equal(kind(server({ transport: HTTP }), server({ transport: { ...HTTP, ...change } })), 'changed'));
}

const UPDATED: readonly [what: string, after: Server][] = [
  ['the description', server({ description: 'new' })],
  ['a deadline', server({ timeoutMs: 1 })],
  ["a tool's deadline", server({ toolTimeoutMs: new Map([['t', 1]]) })],
  ['the filter', server({ tools: { include: new Set(['t']), exclude: new Set() } })],
  ['enabled', server({ enabled: false })],
  ['retry', server({ retry: 'always' })],
];

for (const [what, after] of UPDATED)
  test(`a change of ${what} keeps the connection`, () => assert.equal(kind(server(), after), 'updated'));

test('the order of variables, the case of headers and the position in the file are no change', () => {
  const moved = { origin: { file: 'other', line: 9, column: 9 } };
  assert.equal(
    kind(
      server(),
      server({ transport: { ...STDIO, env: asSecrets({ B: '2', A: '1' }), inheritEnv: ['Y', 'X'] }, ...moved }),
    ),
    'same',
  );
  assert.equal(
    kind(
      server({ transport: HTTP }),
      server({ transport: { ...HTTP, headers: asSecrets({ a: '1' }), tls: { key: new Secret('k') } } }),
    ),
    'same',
  );
});

test('added and removed servers are named, sorted', () => {
  const map = (...names: string[]) => new Map(names.map((name) => [name, server()]));
  const diff = diffServers(map('c', 'b', 'keep'), map('z', 'a', 'keep'));
  assert.deepEqual(diff, { added: ['a', 'z'], removed: ['b', 'c'], changed: [], updated: [], same: ['keep'] });
});
