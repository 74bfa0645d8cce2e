import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asSecrets } from '../../../test/support/as-secrets.ts';
import { remoteSpec, serverNamed } from '../../../test/support/cluster-bench.ts';
import { Secret } from '../../model/secret.ts';
import type { ImageSpec, Server, StdioSpec } from '../../model/server.ts';
import { definitionDigest } from './definition-digest.ts';

const KEY = Buffer.alloc(32, 7);

const plain = serverNamed('memory');
const stdio = plain.transport as StdioSpec;

/** Changes that make it a different server for other nodes, field by field. */
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

/** Settings that each node decides for itself, and texts that only people read. */
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

const image: ImageSpec = {
  name: 'mcp/memory',
  command: ['--all'],
  entrypoint: null,
  cwd: '/data',
  user: null,
  network: 'none',
  volumes: ['memory:/data:ro'],
  readOnly: true,
  labels: { team: 'a' },
  limits: { memoryBytes: 1 << 28, cpus: 0.5, pids: null },
};

const ssh = {
  host: 'far',
  user: null,
  port: 22,
  identityFile: null,
  knownHostsFile: '/srv/hosts',
  hostKeys: 'yes',
  controlMaster: true,
} as const;

/** For every form of definitions, the digest that nodes of version 0.1.0 compute. */
const COME_TO: Readonly<Record<string, readonly [change: Partial<Server>, digest: string]>> = {
  'a process': [{}, '947b514d0860f92bc666f700024dd6c8bf0380af63baa9aebe1ab3e3eb5cd9d5'],
  'a process with all there is to say of it': [
    {
      transport: { ...stdio, env: asSecrets({ B: '2', A: '1' }), inheritEnv: ['Z', 'Y'], cwd: '/srv/deep' },
      isolation: 'shared',
      isolationHeader: 'X-Tenant',
      singleton: true,
      toolTimeoutMs: new Map([
        ['b', 2],
        ['a', 1],
      ]),
      retry: 'hints',
      tools: { include: new Set(['b', 'a']), exclude: new Set(['d', 'c']) },
    },
    '4b3680dcaf5164ee20d0038a8be6ac1c404e7ee8943446b37eae8af44818a946',
  ],
  'a process of another user': [
    { transport: { ...stdio, runAs: { user: 'mcp', processes: 64 } } },
    '179ec98171e19e821a7155fad459d8db93db9b02ba0de0f14cb6a7dd47e74c19',
  ],
  'a process on another host': [
    { transport: { ...stdio, cwd: '', ssh } },
    '953f0898c60b429e55e8430b6af3788377daa1441346e92a1372326d6c706a1a',
  ],
  'an image': [
    { transport: { type: 'docker', target: { image }, env: asSecrets({ A: '1' }), engine: null } },
    'd904271d11ea72364a75fb0770d9c568bb83d29409e9b31f683d75a64fdc63ed',
  ],
  'a container': [
    { transport: { type: 'docker', target: { container: 'memory' }, env: {}, engine: 'unix:///srv/engine' } },
    'fecac6f72c8af20eb99f190bd98c8a96e7a786feab4f0361895b78a4bc82330d',
  ],
  'a URL': [{ transport: remoteSpec }, '4424ee7e0bce08dd859f86797d28c920118cd5a14faf0e118f0e220182b8c909'],
  'a URL with all there is to say of it': [
    {
      transport: {
        ...remoteSpec,
        sseFallback: true,
        headers: asSecrets({ 'x-b': '2', Authorization: 'Bearer 1' }),
        tls: { ca: 'one', cert: 'two', key: new Secret('three') },
      },
    },
    '9337a5b8a0872b8350150e237227d9f25b5d4b12dc001318f898037f03f0e615',
  ],
  'what runs in this process': [
    { transport: { type: 'memory', key: 'memory' } },
    'cb0d10a78abfb1ebc46cb619ab2025daf89e7b3311d0cbf17dd37672bc237467',
  ],
};

for (const [what, [change, digest]] of Object.entries(COME_TO)) {
  test(`S0.18 nodes of the previous version compute the same digest of ${what}`, () => {
    assert.equal(definitionDigest({ ...plain, ...change }, KEY), digest);
  });
}

for (const [what, change] of Object.entries(COUNTED)) {
  test(`S0.18 nodes whose files differ in ${what} have different servers`, () => {
    assert.notEqual(definitionDigest({ ...plain, ...change }, KEY), definitionDigest(plain, KEY));
  });
}

test('S0.18 settings that each node decides do not make it a different server', () => {
  assert.equal(definitionDigest({ ...plain, ...NOT_COUNTED }, KEY), definitionDigest(plain, KEY));
});

test('every field of a server is in the digest, or listed as excluded', () => {
  const said = new Set([...Object.values(COUNTED), NOT_COUNTED].flatMap((change) => Object.keys(change)));
  // `onlyFor` is never offered to other nodes; the folder of `origin` counts through the paths that are relative to it.
  const silent = Object.keys(plain).filter((field) => !said.has(field) && !['onlyFor', 'origin'].includes(field));
  assert.deepEqual(silent, []);
});

test('a server added at run time is the same at nodes that run in different folders', () => {
  const added = { ...plain, origin: { file: '<run time>', line: 1, column: 1 } };
  const here = definitionDigest(added, KEY);
  const folder = process.cwd();
  process.chdir('/');
  assert.equal(definitionDigest(added, KEY), here);
  process.chdir(folder);
  assert.notEqual(definitionDigest({ ...added, transport: { ...stdio, cwd: '/other' } }, KEY), here);
});
