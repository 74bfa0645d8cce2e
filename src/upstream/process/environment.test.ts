import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { asSecrets } from '../../../test/support/as-secrets.ts';
import { shellSpec, stdioBench } from '../../../test/support/stdio-bench.ts';
import { Secret } from '../../model/secret.ts';
import type { StdioSpec } from '../../model/server.ts';
import { childEnvironment, missingVariables } from './environment.ts';

const OURS = {
  PATH: '/bin',
  HOME: '/home/me',
  LC_ALL: 'C',
  XDG_STATE_HOME: '/state',
  https_proxy: 'http://proxy',
  NO_PROXY: 'localhost',
  DOCKER_HOST: 'unix:///x',
  EDITOR: 'vi',
  NPM_CONFIG_REGISTRY: 'http://r',
  GITHUB_TOKEN: 't',
  My_Client_Secret: 's',
  PGPASSWORD: 'p',
  XDG_SECRET: 'x',
  TRUNKLINE_INPUT_KEY: 'k',
  ABSENT: undefined,
};

test('security:10 S2.9 check:B1 a server inherits the minimal set, and gets its declared variables', () => {
  assert.deepEqual(
    childEnvironment({ env: asSecrets({ API_TOKEN: 'mine', HOME: '/other' }), inheritEnv: false }, OURS),
    {
      PATH: '/bin',
      HOME: '/other',
      LC_ALL: 'C',
      XDG_STATE_HOME: '/state',
      https_proxy: 'http://proxy',
      NO_PROXY: 'localhost',
      DOCKER_HOST: 'unix:///x',
      NPM_CONFIG_REGISTRY: 'http://r',
      API_TOKEN: 'mine',
    },
  );
});

test('S2.9 servers inherit certificates and what uvx, pip and npx need to reach a registry, without logins', () => {
  const reaching = {
    SSL_CERT_FILE: '/ca.pem',
    SSL_CERT_DIR: '/certs',
    REQUESTS_CA_BUNDLE: '/ca.pem',
    CURL_CA_BUNDLE: '/ca.pem',
    UV_DEFAULT_INDEX: 'https://pypi.company.example/simple',
    UV_NATIVE_TLS: 'true',
    PIP_INDEX_URL: 'https://pypi.company.example/simple',
    npm_config_registry: 'https://npm.company.example/',
    NPM_CONFIG_CAFILE: '/ca.pem',
    'npm_config_@company:registry': 'https://npm.company.example/',
    npm_config_https_proxy: 'http://proxy.company.example:3128',
  };
  const kept = {
    npm_config__authToken: 'x',
    npm_config__auth: 'dTpw',
    'npm_config_//npm.company.example/:_auth': 'dTpw',
    npm_config__password: 'x',
    npm_config_proxy: 'http://user:password@proxy.company.example',
    npm_config_otp: '123456',
    npm_config_key: '-----BEGIN PRIVATE KEY-----',
    UV_INDEX_COMPANY_PASSWORD: 'x',
    UV_PUBLISH_TOKEN: 'x',
    PIP_EXTRA_INDEX_URL: 'https://user:password@pypi.company.example/simple',
    UV_INDEX_URL: 'https://token@pypi.company.example/simple',
    // Set by npm for the command that it runs: another npx would run that package.
    npm_config_package: 'node@24',
    npm_config_local_prefix: '/elsewhere',
    // Read by libuv for the gateway's own process.
    UV_THREADPOOL_SIZE: '16',
  };
  assert.deepEqual(childEnvironment({ env: {}, inheritEnv: false }, { ...reaching, ...kept }), reaching);
  const listed = childEnvironment({ env: {}, inheritEnv: ['PIP_EXTRA_INDEX_URL'] }, kept);
  assert.deepEqual(listed, { PIP_EXTRA_INDEX_URL: kept.PIP_EXTRA_INDEX_URL });
});

test('npx repeats requests to an unreachable registry sooner, unless the operator configured it', async () => {
  const spec = { command: '/usr/bin/npx', env: {}, inheritEnv: false };
  const ours = { PATH: process.env['PATH'], HOME: '/nonexistent' };
  const env = childEnvironment(spec, ours);
  for (const name of ['fetch-retry-mintimeout', 'fetch-retry-maxtimeout']) {
    const { stdout } = await promisify(execFile)('npm', ['config', 'get', name], { env });
    assert.equal(stdout.trim(), '10000');
  }
  const own = { NPM_CONFIG_FETCH_RETRY_MAXTIMEOUT: '90000' };
  assert.deepEqual(childEnvironment(spec, { ...ours, ...own }), { ...ours, ...own });
  assert.deepEqual(childEnvironment({ ...spec, command: 'node' }, ours), ours);
});

test('look-ups end after 4 s, and servers inherit nothing that the program sets for itself', async () => {
  const bin = join(import.meta.dirname, '../../../bin/trunkline.js');
  const shown = `data:text/javascript,process.on('exit',()=>console.log(JSON.stringify(process.env)))`;
  const program = async (env: NodeJS.ProcessEnv): Promise<Record<string, string>> => {
    const { stdout } = await promisify(execFile)(process.execPath, ['--import', shown, bin, '--version'], { env });
    return JSON.parse(stdout.trim().split('\n').at(-1)!);
  };
  const given = { PATH: process.env['PATH']!, HOME: '/nonexistent' };
  const own = await program(given);
  assert.equal(own['RES_OPTIONS'], 'timeout:2 attempts:2');
  assert.deepEqual(childEnvironment({ env: {}, inheritEnv: true }, own), given);
  assert.deepEqual(childEnvironment({ env: {}, inheritEnv: ['RES_OPTIONS'] }, own), given);
  // The last pair has the values that the program itself sets.
  for (const [RES_OPTIONS, UV_THREADPOOL_SIZE] of [
    ['timeout:7', '4'],
    [own['RES_OPTIONS']!, own['UV_THREADPOOL_SIZE']!],
  ] as const) {
    const chosen = { ...given, RES_OPTIONS, UV_THREADPOOL_SIZE };
    assert.deepEqual(childEnvironment({ env: {}, inheritEnv: true }, await program(chosen)), chosen);
    const listed = childEnvironment({ env: {}, inheritEnv: ['UV_THREADPOOL_SIZE'] }, await program(chosen));
    assert.deepEqual(listed, { ...given, UV_THREADPOOL_SIZE });
  }
  assert.deepEqual(
    childEnvironment({ env: {}, inheritEnv: true }, await program(own)),
    given,
    'a gateway started by a gateway',
  );
});

test('inheritEnv: true passes everything except what looks like a secret', () => {
  const environment = childEnvironment({ env: {}, inheritEnv: true }, OURS);
  assert.equal(environment['EDITOR'], 'vi');
  assert.equal(environment['NPM_CONFIG_REGISTRY'], 'http://r');
  for (const name of [
    'GITHUB_TOKEN',
    'My_Client_Secret',
    'PGPASSWORD',
    'XDG_SECRET',
    'TRUNKLINE_INPUT_KEY',
    'ABSENT',
  ]) {
    assert.ok(!(name in environment), name);
  }
});

test('a listed name is passed, even if it is a secret', () => {
  const environment = childEnvironment({ env: {}, inheritEnv: ['GITHUB_TOKEN', 'ABSENT'] }, OURS);
  assert.equal(environment['GITHUB_TOKEN'], 't');
  assert.ok(!('EDITOR' in environment) && !('ABSENT' in environment));
});

test('S2.9 the process has exactly the inherited and the declared environment', { timeout: 20_000 }, async () => {
  const script = `echo "{\\"seen\\":\\"$HOME $GREETING $EDITOR $GITHUB_TOKEN\\"}"; read line`;
  const bench = stdioBench(shellSpec(script, { env: { GREETING: 'hello' } }), {
    environment: { ...OURS, PATH: process.env['PATH'] },
  });
  await bench.transport.open(bench.receiver);
  await bench.receiver.until(() => bench.receiver.messages.length > 0);
  assert.equal(bench.receiver.messages[0]!.bytes.toString(), '{"seen":"/home/me hello  "}');
  await bench.transport.close('remove');
});

function specOf(command: string, args: readonly string[], changes: Partial<StdioSpec> = {}): StdioSpec {
  return { type: 'stdio', command, args, env: {}, inheritEnv: false, cwd: '/', ...changes };
}

test('S1.19 the report finds unset names that a container or the definition passes on', () => {
  const args = ['run', '-i', '-e', 'HERE', '-e', 'GONE', '--env=ALSO_GONE', '-e', 'SET=x', '-e', 'DECLARED', 'image'];
  const own = { HERE: '1', PATH: '/bin', LISTED: '' };
  const env = { DECLARED: new Secret('y') };
  // A variable that is set but not inherited is not passed on.
  assert.deepEqual(missingVariables(specOf('/usr/bin/docker', args, { env }), own), ['ALSO_GONE', 'GONE', 'HERE']);
  const inheriting = specOf('docker', args, { env, inheritEnv: ['HERE', 'LISTED', 'NOWHERE'] });
  assert.deepEqual(missingVariables(inheriting, own), ['ALSO_GONE', 'GONE', 'NOWHERE']);
  assert.deepEqual(missingVariables(specOf('node', args), own), []);
});
