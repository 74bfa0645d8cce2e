import assert from 'node:assert/strict';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { type BundleManifest, bundleDefinition, manifestOf } from './mcpb-manifest.ts';

const FOLDER = '/data/bundles/x/0123';
const FILES = ['manifest.json', 'server/index.js', 'server/run', 'src/server.py'];
const NODE = { command: 'node', args: ['${__dirname}/server/index.js'] };
type Config = BundleManifest['server']['mcp_config'];

function manifest(config: Config, options: object = {}, more: object = {}): BundleManifest {
  const server = { type: 'node', entry_point: 'server/index.js', mcp_config: config };
  return manifestOf(
    JSON.stringify({ manifest_version: '0.3', name: 'x', version: '1.0.0', server, user_config: options, ...more }),
  );
}

function defined(one: BundleManifest, values: Readonly<Record<string, readonly string[]>> = {}) {
  const given = { value: async (name: string) => values[name] ?? null };
  return bundleDefinition(one, { folder: FOLDER, cwd: '/home/me', given, has: (name) => FILES.includes(name) });
}

test('placeholders of folders and values are replaced; all other text stays literal', async () => {
  const options = {
    key: { type: 'string', sensitive: true },
    dirs: { type: 'directory', multiple: true, default: ['${HOME}/Desktop', '${DOCUMENTS}'] },
    port: { type: 'number', default: 80, min: 1, max: 100 },
    quiet: { type: 'boolean', default: false },
    none: { type: 'string' },
  };
  const config = {
    command: 'node',
    args: [
      ...['${__dirname}${/}server${pathSeparator}index.js', '${user_config.dirs}', '--dir=${user_config.dirs}'],
      ...['--port', '${user_config.port}', '${user_config.none}', '-x${user_config.none}', '${HOME}', '${AWS_KEY}'],
      ...['$${HOME}', '${user_config.unknown}', '$${secret:x}', '${', 'xHOMEx'],
    ],
    env: {
      KEY: 'Bearer ${user_config.key}',
      DIRS: '${user_config.dirs}',
      QUIET: '${user_config.quiet}',
      NONE: '${user_config.none}',
    },
  };
  const one = manifest(config, options, { description: 'Of files' });
  const found = await defined(one, { key: ['${secret:x-key}'], dirs: ['docs', '/srv'] });
  assert.deepEqual(found, {
    description: 'Of files',
    command: 'node',
    args: [
      ...[`${FOLDER}/server/index.js`, '/home/me/docs', '/srv', '--dir=/home/me/docs', '--dir=/srv'],
      ...['--port', '80', '-x', homedir(), '$${AWS_KEY}'],
      ...[`$${homedir()}`, '$${user_config.unknown}', '$$${secret:x}', '$${', 'xHOMEx'],
    ],
    env: { KEY: 'Bearer ${secret:x-key}', DIRS: ['/home/me/docs', '/srv'].join(delimiter), QUIET: 'false' },
    cwd: FOLDER,
  });
  const usual = await defined(manifest({ command: 'node', args: ['${user_config.dirs}'] }, options));
  assert.deepEqual(usual.args, [join(homedir(), 'Desktop'), join(homedir(), 'Documents')]);
  const home = await defined(manifest({ command: 'node', args: ['${user_config.dirs}'] }, options), { dirs: ['~/x'] });
  assert.deepEqual(home.args, [join(homedir(), 'x')]);
});

test('two pieces of a bundle never make a reference together', async () => {
  const options = { half: { type: 'string', default: '$' }, name: { type: 'string', default: '{HOME}' } };
  const { args } = await defined(
    manifest({ command: 'node', args: ['${user_config.half}${user_config.name}'] }, options),
  );
  assert.deepEqual(args, ['$${HOME}']);
});

test('an override for this platform replaces the common settings; one for another platform does not', async () => {
  const config = {
    ...NODE,
    env: { A: 'common', B: 'common' },
    platform_overrides: {
      [process.platform]: { args: ['here'], env: { A: 'here' } },
      other: { command: 'there' },
    },
  };
  assert.deepEqual(await defined(manifest(config)), {
    command: 'node',
    args: ['here'],
    env: { A: 'here' },
    cwd: FOLDER,
  });
});

test('a program of the bundle is named with its whole path, and uv needs no command', async () => {
  for (const command of ['server/run', './server/run', '${__dirname}/server/run'])
    assert.equal((await defined(manifest({ command }))).command, `${FOLDER}/server/run`, command);
  assert.equal((await defined(manifest({ command: '/usr/bin/python3' }))).command, '/usr/bin/python3');
  const server = { type: 'uv', entry_point: 'src/server.py' };
  const { command, args } = await defined(manifest(undefined, {}, { server, manifest_version: '0.4' }));
  assert.deepEqual([command, args], ['uv', ['run', '--directory', FOLDER, 'src/server.py']]);
});

test('each mistake is rejected with a message that names its place', async () => {
  const wrong: readonly (readonly [() => unknown, RegExp])[] = [
    [() => manifestOf('{'), /is no JSON/],
    [() => manifestOf('5'), /is not valid: it has to be an object/],
    [() => manifestOf('{"name":"x"}'), /is not valid: version is missing/],
    [() => manifest({ command: 5 } as never), /server\.mcp_config\.command has to be a text/],
    [() => manifest({ args: ['a', 5] } as never), /server\.mcp_config\.args\[1\] has to be a text/],
    [() => manifest(NODE, { a: { type: 'color' } }), /user_config\.a\.type has to be one of string, number/],
    [() => manifest(NODE, {}, { manifest_version: '1.0' }), /has manifest_version 1\.0; 0\.1 to 0\.4 are known/],
    [() => manifest(NODE, {}, { manifest_version: undefined }), /has manifest_version \(none\)/],
    [() => manifest(NODE, {}, { compatibility: { platforms: ['amiga'] } }), /runs on amiga only; this is/],
    [() => defined(manifest(undefined)), /has no server\.mcp_config\.command/],
    [() => defined(manifest({ command: '../run' })), /has the command "\.\.\/run", which is not in the bundle/],
    [() => defined(manifest({ command: 'server/nosuch' })), /which is not in the bundle/],
    [() => defined(manifest({ command: '${__dirname}/nosuch' })), /which is not in the bundle/],
    [
      () => defined(manifest(NODE, {}, { server: { type: 'node', entry_point: '../x.js', mcp_config: NODE } })),
      /names the entry_point "\.\.\/x\.js", which is not in the bundle/,
    ],
    [
      () => defined(manifest(NODE, { n: { type: 'number', min: 1, max: 9 } }), { n: ['12'] }),
      /n has to be a number from 1 to 9, and is "12"/,
    ],
    [() => defined(manifest(NODE, { n: { type: 'number' } }), { n: ['x'] }), /n has to be a number, and is "x"/],
    [() => defined(manifest(NODE, { d: { type: 'directory' } }), { d: ['a', 'b'] }), /d takes one value/],
    [() => defined(manifest(NODE, { s: { type: 'string', required: true } }), { s: [''] }), /s needs a value/],
  ];
  for (const [make, answer] of wrong) await assert.rejects(async () => make(), answer);
});
