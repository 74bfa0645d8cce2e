import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { rolldown } from 'rolldown';
import { said, startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { zipFile } from '../support/zip-file.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const MCPB = join(ROOT, 'node_modules/@anthropic-ai/mcpb/dist/cli/cli.js');
const MEMORY = join(ROOT, 'node_modules/@modelcontextprotocol/server-memory/dist/index.js');
const ENTITIES = 'entities:=[{"name":"kept","entityType":"t","observations":[]}]';

const MANIFEST = {
  manifest_version: '0.3',
  name: 'memory',
  version: '1.0.0',
  description: 'Knowledge graph that lasts',
  author: { name: 'Trunkline' },
  server: {
    type: 'node',
    entry_point: 'server/index.mjs',
    mcp_config: {
      command: 'nosuch',
      args: ['${__dirname}/server/index.mjs'],
      env: { MEMORY_FILE_PATH: '${user_config.graph}', KEY: '${user_config.api_key}' },
      platform_overrides: { [process.platform]: { command: 'node' } },
    },
  },
  compatibility: { runtimes: { node: '>=18' } },
  user_config: {
    graph: { type: 'file', title: 'Graph', description: 'File of the graph', required: true },
    api_key: { type: 'string', title: 'Key', description: 'Key of the account', sensitive: true, required: true },
  },
};

let source: string;
/** The bundle of a version, as the packer of the format makes it: the memory server of the MCP project in one file. */
function pack(version: string): string {
  const folder = join(source, 'memory');
  writeFileSync(join(folder, 'manifest.json'), JSON.stringify({ ...MANIFEST, version }));
  const bundle = join(source, `memory-${version}.mcpb`);
  execFileSync(process.execPath, [MCPB, 'pack', folder, bundle], { stdio: 'ignore' });
  return bundle;
}

let memory: string;
before(async () => {
  source = mkdtempSync(join(tmpdir(), 'trunkline-bundles-'));
  const build = await rolldown({ input: MEMORY, platform: 'node' });
  await build.write({ file: join(source, 'memory/server/index.mjs'), format: 'esm' });
  memory = pack('1.0.0');
});
after(() => rmSync(source, { recursive: true, force: true }));

let folder: string;
let options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trunkline-bundled-'));
  options = { cwd: folder, env: { HOME: folder, TRUNKLINE_DATA_DIR: join(folder, 'data') } };
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const run = (...args: readonly string[]) => trunkline(args, options);
const SET = ['--set', 'graph=graph.json', '--set', 'api_key=very-secret-value'];
/** Folders of the bundles of a name. */
function unpacked(name: string): readonly string[] {
  const versions = join(folder, 'data/bundles', name);
  return existsSync(versions) ? readdirSync(versions) : [];
}
const left = () => (existsSync(join(folder, 'data/bundles')) ? readdirSync(join(folder, 'data/bundles')) : []);

test('add asks for missing inputs; then the bundle is added, called, updated and removed; the secret is in no file', async () => {
  const lacking = await run('add', memory);
  assert.equal(lacking.code, 1);
  assert.match(
    lacking.err,
    /--set NAME=value:\n +graph {2}File of the graph\n +api_key {2}Key of the account \(a secret\)/,
  );
  assert.deepEqual(left(), []);
  // Like a scratch folder that another `add` removes meanwhile: it is listed, but does not exist.
  symlinkSync('/no/such/folder', join(folder, 'data/bundles/.new-gone'));
  const added = await run('add', memory, ...SET);
  assert.equal(added.code, 0, added.err);
  const [first] = unpacked('memory');
  assert.match(added.out, new RegExp(`runs {2}node ${folder}/data/bundles/memory/${first}/server/index.mjs`));
  assert.match(added.err, /it needs node >=18/);
  const called = await run('call', 'memory.create_entities', ENTITIES);
  assert.equal(called.code, 0, called.err);
  assert.match(readFileSync(join(folder, 'graph.json'), 'utf8'), /"kept"/);
  const stored = readFileSync(join(folder, 'data/truth.db'), 'latin1');
  assert.ok(!stored.includes('very-secret-value') && stored.includes('${secret:memory-api_key}'));

  const taken = await run('add', pack('2.0.0'), ...SET);
  assert.match(taken.err, /exists already/);
  assert.deepEqual(unpacked('memory'), [first], 'a bundle that was not added is left');
  const second = await run('add', pack('2.0.0'), ...SET, '--replace');
  assert.equal(second.code, 0, second.err);
  assert.equal(unpacked('memory').length, 2);
  assert.ok(unpacked('memory').includes(first!), 'a version that may still run is gone');
  const third = await run('add', pack('3.0.0'), ...SET, '--replace');
  assert.equal(third.code, 0, third.err);
  assert.equal(unpacked('memory').length, 2);
  assert.ok(!unpacked('memory').includes(first!), 'old versions stay for ever');
  assert.equal((await run('remove', 'memory')).code, 0);
  assert.deepEqual(left(), []);
});

test('a bundle is added to a running gateway by another name; files that another server uses stay', async (t) => {
  writeFileSync(join(folder, 'trunkline.json'), '{"mcpServers":{}}');
  const gateway = startTrunkline(['--port', '0', '--control-port', '0'], options);
  t.after(async () => {
    gateway.process.kill();
    await gateway.exited;
  });
  await said(gateway, 'Servers');
  const added = await run('add', 'graph', memory, ...SET);
  assert.equal(added.code, 0, added.err);
  assert.match(added.out, /graph +ready +9 tools/);
  const called = await run('call', 'graph.create_entities', ENTITIES);
  assert.equal(called.code, 0, called.err);
  const program = join(folder, 'data/bundles/graph', unpacked('graph')[0]!, 'server/index.mjs');
  assert.equal((await run('add', 'copy', '--', 'node', program)).code, 0);
  assert.equal((await run('remove', 'graph')).code, 0);
  assert.equal(unpacked('graph').length, 1);
  assert.equal((await run('add', memory, '--as', 'graph', ...SET)).code, 0);
  assert.equal((await run('remove', 'copy')).code, 0);
  assert.equal((await run('remove', 'graph')).code, 0);
  assert.deepEqual(left(), []);
});

test('files that are not valid bundles are refused, and nothing is left of them', async () => {
  const manifest = JSON.stringify(MANIFEST);
  const wrong: readonly (readonly [string, Buffer | null, readonly string[], RegExp])[] = [
    ['nosuch.mcpb', null, [], /there is no file .*nosuch\.mcpb/],
    ['text.mcpb', Buffer.from('text'), [], /the bundle is not taken: End of central directory/],
    ['outside.mcpb', zipFile([{ name: '../../x' }]), [], /the bundle is not taken: invalid relative path/],
    ['bare.mcpb', zipFile([{ name: 'x' }]), [], /the bundle is not taken: it has no manifest\.json/],
    [
      'lacks.mcpb',
      zipFile([{ name: 'manifest.json', data: manifest }]),
      SET,
      /"server\/index\.mjs", which is not in the/,
    ],
    ['old.dxt', zipFile([{ name: 'manifest.json', data: '{}' }]), [], /is not valid: name is missing/],
  ];
  for (const [name, bytes, set, answer] of wrong) {
    if (bytes !== null) writeFileSync(join(folder, name), bytes);
    const { code, err } = await run('add', `./${name}`, ...set);
    assert.equal(code, 1, name);
    assert.match(err, answer);
    assert.deepEqual(left(), [], name);
  }
  mkdirSync(join(folder, 'folder.mcpb'));
  assert.match((await run('add', 'folder.mcpb')).err, /the bundle is not taken: EISDIR/);
  assert.match(
    (await run('add', memory, '--set', 'colour=red', ...SET)).err,
    /colour of --set is no input.*graph, api_key/,
  );
  assert.match((await run('add', 'https://example.com/x.mcpb')).err, /download the bundle first/);
});

describe('a registry with bundles', () => {
  let server: Server;
  let other: Server;
  let base: string;
  let reached = 0;
  let entry: object;
  const listen = async (one: Server) => {
    await new Promise<void>((done) => one.listen(0, '127.0.0.1', done));
    return `http://127.0.0.1:${(one.address() as AddressInfo).port}`;
  };

  before(async () => {
    other = createServer((_request, response) => {
      reached++;
      response.end(readFileSync(memory));
    });
    const elsewhere = await listen(other);
    server = createServer((request, response) => {
      const redirect = (location: string) => response.writeHead(302, { location }).end();
      if (request.url === '/memory.mcpb') response.end(readFileSync(memory));
      else if (request.url === '/moved') redirect('/memory.mcpb');
      else if (request.url === '/round') redirect('/round');
      else if (request.url === '/inside') redirect(`${elsewhere}/memory.mcpb`);
      else if (request.url === '/none') response.writeHead(404).end();
      else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ server: entry }));
    });
    base = await listen(server);
  });
  after(() => {
    server.close();
    other.close();
  });

  /** Adds the bundle from a registry entry with this address and hash. */
  async function addOf(path: string, fileSha256: string | undefined, ...more: readonly string[]) {
    const identifier = path.startsWith('/') ? `${base}${path}` : path;
    const one = { registryType: 'mcpb', identifier, fileSha256, transport: { type: 'stdio' } };
    entry = { name: 'com.example/memory', version: '1.0.0', packages: [one] };
    return run('add', 'com.example/memory', '--registry', base, ...SET, ...more);
  }

  test('a bundle with the hash of the registry is added and called, over a redirect as well', async () => {
    const hash = createHash('sha256').update(readFileSync(memory)).digest('hex');
    const added = await addOf('/moved', hash.toUpperCase());
    assert.equal(added.code, 0, added.err);
    const called = await run('call', 'memory.create_entities', ENTITIES);
    assert.equal(called.code, 0, called.err);
    assert.equal((await run('remove', 'memory')).code, 0);

    const wrong: readonly (readonly [string, string | undefined, number, RegExp])[] = [
      ['/memory.mcpb', '0'.repeat(64), 1, new RegExp(`its SHA-256 is ${hash}, and has to be 0000`)],
      ['/memory.mcpb', undefined, 1, /gives no SHA-256 \(fileSha256\) for http:.*memory\.mcpb/],
      ['/memory.mcpb', 'abc', 1, /gives no SHA-256/],
      ['/none', hash, 4, /cannot be downloaded: .* answers 404/],
      ['/round', hash, 4, /redirects for the 6th time/],
      ['/inside', hash, 4, /cannot be downloaded: .*is reached without TLS/],
      ['https://10.0.0.1/x.mcpb', hash, 4, /is on this machine or its network; if that is right, download the file/],
      ['file:///etc/passwd', hash, 1, /its bundle has no address/],
      ['http://', hash, 1, /its bundle has no address/],
      ['http://[', hash, 4, /cannot be downloaded/],
    ];
    for (const [path, digest, code, answer] of wrong) {
      const answered = await addOf(path, digest);
      assert.equal(answered.code, code, answered.err);
      assert.match(answered.err, answer);
      assert.deepEqual(left(), [], path);
    }
    assert.equal(reached, 0, 'a redirect to another local server was followed');
  });
});
