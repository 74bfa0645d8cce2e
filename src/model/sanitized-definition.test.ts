import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asSecrets } from '../../test/support/as-secrets.ts';
import { sanitizedDefinition, sanitizedDescription } from './sanitized-definition.ts';
import { Secret } from './secret.ts';
import type { StdioSpec, TransportSpec } from './server.ts';

function command(args: readonly string[], changes: Partial<StdioSpec> = {}): StdioSpec {
  return { type: 'stdio', command: 'x', args, env: {}, inheritEnv: false, cwd: '/', ...changes };
}

const shown = (...args: string[]) => sanitizedDefinition(command(args)).args;

test('S1.19 arguments are shown without values that may be secret, and otherwise unchanged', () => {
  assert.deepEqual(shown('run', '-i', '--rm', '--port=80', '-y', '@scope/server'), [
    ...['run', '-i', '--rm', '--port=80', '-y', '@scope/server'],
  ]);
  assert.deepEqual(shown('-e', 'A=b=c', '-e', 'NAME', '--env', 'X=1', '--env=Y=2'), [
    ...['-e', 'A=[redacted]', '-e', 'NAME', '--env', 'X=[redacted]', '--env=Y=[redacted]'],
  ]);
  assert.deepEqual(shown('--api-key=abc', '--token', 'abc', '--password', '--verbose', 'GH_TOKEN=x'), [
    ...['--api-key=[redacted]', '--token', '[redacted]', '--password', '--verbose', 'GH_TOKEN=[redacted]'],
  ]);
  assert.deepEqual(shown('postgres://me:pw@db/x', '--db=postgres://me:pw@db/x'), [
    ...['postgres://[redacted]@db/x', '--db=postgres://[redacted]@db/x'],
  ]);
  const ordinary = [
    '--tokenizer',
    'cl100k_base',
    '--token-file',
    '/etc/token',
    '--max-tokens',
    '4096',
    '--tokenPath',
    '/x',
  ];
  const others = [
    '--user',
    '1000:1000',
    'image:tag@sha256:abc',
    'npm:pkg@latest',
    'org/image:1.2@sha256:abc',
    'git@h:a/b@v1',
  ];
  assert.deepEqual(shown(...ordinary, ...others), [...ordinary, ...others]);
  assert.deepEqual(sanitizedDefinition(command([...ordinary, ...others])).secrets, []);
  const paths = ['/opt/node-v24.21.0/bin/x', './test/server-2025-11-25.mjs', '--root=/srv/2025-backup-01'];
  assert.deepEqual(shown(...paths), paths);
});

test('a package name that looks random is shown; the same text as an argument of the program is hidden', () => {
  const of = (program: string, ...args: string[]) => sanitizedDefinition(command(args, { command: program })).args;
  const name = 'weather-server-20251125-beta';
  assert.deepEqual(of('npx', '-y', name, name), ['-y', name, '[redacted]']);
  assert.deepEqual(of('/usr/bin/npx', '-y', '-p', `@scope/${name}@1.2.3`, 'run'), [
    '-y',
    '-p',
    `@scope/${name}@1.2.3`,
    'run',
  ]);
  assert.deepEqual(of('uvx', name), [name]);
  assert.deepEqual(of('node', name), ['[redacted]']);
  assert.deepEqual(of('npx', '--token', name), ['--token', '[redacted]']);
  assert.deepEqual(of('npx', 'ghp_0123456789abcdefABCD'), ['[redacted]']);
});

test('security:5 the scrubber learns a secret in an argument in every usual form', () => {
  const CANARY = 'canary-8f31c2-Zq';
  for (const args of [
    [`postgresql://app:${CANARY}@db/prod`],
    [`--dsn=postgresql://app:${CANARY}@db/prod`],
    ['-e', `GITHUB_TOKEN=${CANARY}`],
    ['--env', `GITHUB_TOKEN=${CANARY}`],
    [`--env=GITHUB_TOKEN=${CANARY}`],
    [`API_TOKEN=${CANARY}`],
    ['--header', `Authorization: Bearer ${CANARY}`],
    ['--header', `Authorization:Bearer ${CANARY}`],
    ['-H', `X-Anything: ${CANARY}`],
    [`--header=X-Api-Key: ${CANARY}`],
    ['--password', CANARY],
    [`--api-key=${CANARY}`],
    ['--access_key', CANARY],
    ['-u', `me:${CANARY}`],
    ['--passphrase', CANARY],
    ['--bearer', CANARY],
    ['--auth', CANARY],
    ['--pat', CANARY],
    ['--jwt', CANARY],
    [`{"encryptionKey":"${CANARY}"}`],
    [`user:${CANARY}@h:5432/db`],
    [`user:${CANARY}@127.0.0.1`],
    ['-e', `SSH_PASSPHRASE=${CANARY}`],
    [`{"apiKey":"${CANARY}"}`],
    ['-c', `API_TOKEN=${CANARY} exec server`],
    [`https://h.example/mcp?key=${CANARY}`],
    [`https://h.example/s/${CANARY}/mcp`],
  ]) {
    const swept = sanitizedDefinition(command(args));
    assert.ok(swept.secrets.includes(CANARY), JSON.stringify([args, swept.secrets]));
    assert.ok(!swept.args.join(' ').includes(CANARY), JSON.stringify(swept.args));
  }
});

test('security:5 keys of known services are secrets in every text of a definition', () => {
  const KEY = 'ghp_0123456789abcdefABCDEF0123456789abcd';
  const docker = (target: object, changes: object = {}): TransportSpec =>
    ({ type: 'docker', target, env: {}, engine: null, ...changes }) as TransportSpec;
  const image = { name: 'i', command: [], entrypoint: null, cwd: null, user: null, network: null, volumes: [] };
  const limits = { memoryBytes: null, cpus: null, pids: null };
  for (const transport of [
    command([KEY]),
    command([], { command: `/bin/${KEY}` }),
    command([], { cwd: `/srv/${KEY}` }),
    command([], { env: asSecrets({ ANY: KEY }) }),
    docker({ image: { ...image, readOnly: false, labels: { any: KEY }, limits } }),
    docker({ image: { ...image, command: [KEY], readOnly: false, labels: {}, limits } }),
    docker({ image: { ...image, entrypoint: ['x', KEY], readOnly: false, labels: {}, limits } }),
    docker({ image: { ...image, volumes: [`/srv/${KEY}:/x`], readOnly: false, labels: {}, limits } }),
    docker({ container: 'c' }, { engine: `tcp://me:${KEY}@h:2375` }),
    { type: 'http', url: `https://h/${KEY}`, headers: {}, tls: {} },
    { type: 'http', url: `https://h/?any=${KEY}`, headers: {}, tls: {} },
    { type: 'sse', url: 'https://h/', headers: asSecrets({ 'x-any': KEY }), tls: {} },
    { type: 'json', url: 'https://h/', headers: {}, tls: { key: new Secret(KEY) } },
  ] as readonly TransportSpec[]) {
    const { secrets, ...rest } = sanitizedDefinition(transport);
    assert.ok(secrets.includes(KEY), JSON.stringify(transport));
    assert.ok(!JSON.stringify(rest).includes(KEY), JSON.stringify(rest));
  }
  assert.equal(sanitizedDescription(`for ${KEY}.`, command([])), 'for [redacted].');
});

test('security:5 a value that only looks like a secret is hidden, and not searched for in logs', () => {
  const { args, secrets } = sanitizedDefinition(command(['mcp-server-2025.3.1', '--mode=production']));
  assert.deepEqual(args, ['[redacted]', '--mode=production']);
  assert.deepEqual(secrets, []);
  const { secrets: few } = sanitizedDefinition(
    command([], { env: asSecrets({ NODE_ENV: 'production', TOKEN: 'short' }) }),
  );
  assert.deepEqual(few, []);
});

test('S1.19 ordinary values of variables and names of folders are not masked elsewhere', () => {
  const env = asSecrets({ NAME: 'file', NODE_ENV: 'production', MY_TOKEN: 'word' });
  const cwd = '/tmp/trunkline-gateway-aB3xY1/Of-2025-My_Server-Zq9Rt2';
  const transport = command(['--mode=production', `${cwd}/file`, 'the word'], { env, cwd });
  assert.equal(sanitizedDescription('a file in production', transport), 'a file in production');
  assert.deepEqual(sanitizedDefinition(transport).args, ['--mode=production', `${cwd}/file`, 'the [redacted]']);
  assert.deepEqual(sanitizedDefinition(transport).secrets, []);
  const random = 'q7Rk2-Vx9_mT4wZ8b-Lc1Y';
  assert.deepEqual(sanitizedDefinition(command([], { cwd: `/srv/${random}` })).secrets, [random]);
});

test('user and password of a Basic header are secrets too', () => {
  const pair = Buffer.from('somebody:pass-word').toString('base64');
  const headers = asSecrets({ Authorization: `Basic ${pair}` });
  const { secrets } = sanitizedDefinition({ type: 'http', url: 'https://h/', headers, tls: {} });
  assert.deepEqual([...secrets].sort(), [`Basic ${pair}`, pair, 'pass-word', 'somebody:pass-word'].sort());
});

test('security:5 passwords in addresses are known in every spelling, and hidden up to the host', () => {
  for (const [address, secrets, seen] of [
    ['postgresql://app:p%40ssword@db/x', ['p%40ssword', 'p@ssword'], 'postgresql://[redacted]@db/x'],
    ['postgres://app:pa/ssword@db', ['pa/ssword'], 'postgres://[redacted]@db'],
    ['redis://:pa#ssword@h', ['pa#ssword'], 'redis://[redacted]@h'],
    ['https://u:pa/ssword@h/mcp', ['pa/ssword'], 'https://[redacted]@h/mcp'],
    ['mongodb://u:password@h/db?to=a@b', ['password'], 'mongodb://[redacted]@b'],
    ['https://h:8080/@scope/package', [], 'https://h:8080/@scope/package'],
    ['mongodb://h1:27017,h2:27017/db', [], 'mongodb://h1:27017,h2:27017/db'],
  ] as const) {
    const swept = sanitizedDefinition(command([address]));
    for (const secret of secrets) assert.ok(swept.secrets.includes(secret), `${address}: ${swept.secrets}`);
    assert.deepEqual(swept.args, [seen]);
    const ofVariable = sanitizedDefinition(command([], { env: asSecrets({ DB: address }) }));
    for (const secret of secrets) assert.ok(ofVariable.secrets.includes(secret), `${address}: ${ofVariable.secrets}`);
  }
});

test('a long text costs time in proportion to its length', () => {
  for (const unit of ['a', ' ', '://', 'a:', 'a =', '${', '-e ', 'Bearer ', '{"', '%4', 'A1a', '=@', 'a://a@']) {
    const tookMs = (length: number): number => {
      const begun = performance.now();
      sanitizedDefinition(command([unit.repeat(length / unit.length), '-c', `x ${unit.repeat(length / unit.length)}`]));
      return performance.now() - begun;
    };
    tookMs(10_000);
    assert.ok(tookMs(50_000) < 3_000, JSON.stringify(unit));
  }
});
