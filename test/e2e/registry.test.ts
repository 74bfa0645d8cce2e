import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const MEMORY_VERSION = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).devDependencies[
  '@modelcontextprotocol/server-memory'
] as string;
const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json';

const MEMORY = {
  $schema: SCHEMA,
  name: 'io.github.modelcontextprotocol/memory',
  description: 'Knowledge graph that lasts',
  version: MEMORY_VERSION,
  packages: [
    {
      registryType: 'npm',
      identifier: '@modelcontextprotocol/server-memory',
      version: MEMORY_VERSION,
      transport: { type: 'stdio' },
      environmentVariables: [
        { name: 'MEMORY_FILE_PATH', description: 'File of the graph', isRequired: true, format: 'filepath' },
        { name: 'API_KEY', description: 'Key of the account', isSecret: true, isRequired: true },
        { name: 'MODE', choices: ['fast', 'safe'], default: 'fast' },
      ],
    },
  ],
};
const REMOTE = {
  $schema: SCHEMA,
  name: 'com.example/weather',
  description: 'Weather of cities',
  version: '2.0.0',
  remotes: [{ type: 'streamable-http', url: 'https://no-such-host.invalid/mcp' }],
};
const ANYWHERE = {
  $schema: SCHEMA,
  name: 'com.example/anywhere',
  version: '1.0.0',
  remotes: [
    {
      type: 'streamable-http',
      url: '{BASE}/mcp',
      variables: { BASE: { isRequired: true } },
      headers: [{ name: 'X-Key', isRequired: true, isSecret: true }],
    },
  ],
};
const OLD = { ...REMOTE, version: '1.10.0', description: 'Weather of villages' };
const GONE = { ...REMOTE, name: 'com.example/gone' };

let folder: string;
let options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trunkline-registry-'));
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const data = join(folder, 'data');
  options = { cwd: folder, env: { HOME: folder, TRUNKLINE_DATA_DIR: data, npm_config_offline: 'true' } };
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** The stored data of added servers. */
const stored = () => readFileSync(join(folder, 'data/truth.db'), 'latin1');

const run = (...args: readonly string[]) => trunkline(args, options);

describe('a folder of server.json documents', () => {
  let registry: string;
  beforeEach(() => {
    registry = join(folder, 'registry');
    mkdirSync(join(registry, 'weather'), { recursive: true });
    writeFileSync(join(registry, 'memory.json'), JSON.stringify(MEMORY));
    writeFileSync(join(registry, 'weather/server.json'), JSON.stringify(REMOTE));
    writeFileSync(join(registry, 'package.json'), '{"name":"x"}');
    writeFileSync(join(registry, 'old.json'), JSON.stringify({ servers: [{ server: OLD }] }));
  });

  test('search finds by words, add requires the inputs, and the server is called; the secret is in no file', async () => {
    const found = await run('search', 'graph', '--registry', registry);
    assert.match(found.out, /^io\.github\.modelcontextprotocol\/memory {2}\S+ {2}npm {2}Knowledge graph/);
    const lacking = await run('add', MEMORY.name, '--registry', registry);
    assert.equal(lacking.code, 1);
    assert.match(lacking.err, /MEMORY_FILE_PATH {2}File of the graph\n.*API_KEY {2}Key of the account \(a secret\)/);
    const graph = join(folder, 'graph.json');
    const set = ['--set', `MEMORY_FILE_PATH=${graph}`, '--set', 'API_KEY=very-secret-value'];
    const added = await run('add', MEMORY.name, '--registry', registry, ...set);
    assert.equal(added.code, 0, added.err);
    assert.match(added.out, new RegExp(`runs {2}npx -y @modelcontextprotocol/server-memory@${MEMORY_VERSION}`));
    assert.match((await run('secret', 'list')).out, /^memory-api_key /);
    const entities = '[{"name":"kept","entityType":"t","observations":[]}]';
    const called = await run('call', 'memory.create_entities', `entities:=${entities}`);
    assert.equal(called.code, 0, called.err);
    assert.match(readFileSync(graph, 'utf8'), /"kept"/);
    assert.ok(!stored().includes('very-secret-value') && stored().includes('${secret:memory-api_key}'));
  });

  test('when a server is refused, its own secrets are removed again, and no others', async () => {
    writeFileSync(join(registry, 'anywhere.json'), JSON.stringify(ANYWHERE));
    const add = (base: string, key: string, ...more: readonly string[]) =>
      run('add', ANYWHERE.name, '--registry', registry, '--set', `BASE=${base}`, '--set', `X-Key=${key}`, ...more);
    const secrets = async () => JSON.parse((await run('secret', 'list', '--json')).out).secrets;
    for (const gateway of [null, await RunningGateway.start({ config: { mcpServers: {} } })]) {
      if (gateway !== null)
        options = { cwd: gateway.folder, env: { ...options.env, TRUNKLINE_DATA_DIR: join(gateway.folder, 'data') } };
      const refused = await add('nowhere at all', 'key-of-nowhere');
      assert.equal(refused.code, 1);
      assert.match(refused.err, /TL1408/);
      assert.deepEqual(await secrets(), []);
      const added = await add('https://no-such-host.invalid', 'key-of-anywhere', '--no-wait');
      assert.equal(added.code, 0, added.err);
      const kept = await secrets();
      assert.deepEqual([kept.length, kept[0].name], [1, 'anywhere-x-key']);
      const again = await add('https://no-such-host.invalid', 'another-key');
      assert.match(again.err, /the server anywhere exists already/);
      assert.equal((await add('nowhere at all', 'key-of-nowhere', '--as', 'other')).code, 1);
      assert.deepEqual(await secrets(), kept);
      await gateway?.dispose();
    }
  });

  test('the configuration names the registry, relative to its own folder; a flag takes precedence', async () => {
    writeFileSync(join(folder, 'trunkline.json'), '{"mcpServers": {}, "registry": "./registry"}');
    const within = { ...options, cwd: join(registry, 'weather') };
    assert.match((await trunkline(['search', 'cities'], within)).out, /^com\.example\/weather /);
    const added = await run('add', 'weather', '--no-wait');
    assert.match(added.out, /^added weather /, added.err);
    const other = join(folder, 'other.json');
    writeFileSync(other, JSON.stringify(GONE));
    assert.match((await run('search', 'weather', '--registry', other)).out, /^com\.example\/gone /);
    assert.equal((await run('check')).code, 0);
  });

  test('add takes the latest version or one by number, and reports each mistake with its remedy', async () => {
    const added = await run('add', 'weather', '--registry', registry, '--as', 'w');
    assert.equal(added.code, 0, added.err);
    assert.match(stored(), /Weather of cities/);
    const older = await run('add', 'com.example/weather@1.10.0', '--registry', registry, '--replace', '--as', 'w');
    assert.equal(older.code, 0, older.err);
    assert.match(stored(), /Weather of villages/);
    const wrong: [readonly string[], RegExp][] = [
      [['com.example/weather@3'], /com\.example\/weather has no version 3/],
      [
        ['com.example/wether'],
        /there is no server "com\.example\/wether" .*(did you mean "com\.example\/weather"|search)/,
      ],
      [['com.example/weather', '--via', 'npm'], /com\.example\/weather has: remote/],
      [['com.example/weather', '--set', 'CITY=Oslo'], /CITY of --set is no input of this server/],
      [
        [MEMORY.name, '--set', 'MODE=slow', '--set', 'MEMORY_FILE_PATH=a', '--set', 'API_KEY=b'],
        /MODE is one of: fast, safe/,
      ],
      [['com.example/weather', '--as', 'a b'], /"a b" is no name of a server/],
    ];
    for (const [args, answer] of wrong) {
      const { code, err } = await run('add', ...args, '--registry', registry);
      assert.equal(code, 1, args.join(' '));
      assert.match(err, answer);
    }
    for (const target of ['./server.js', 'files', 'tools/server.js'])
      assert.match((await run('add', target)).err, /name a url, or a command behind "--"/, target);
    const nowhere = await run('search', 'x', '--registry', join(folder, 'nosuch'));
    assert.match(nowhere.err, /the registry .*nosuch cannot be read: ENOENT/);
    writeFileSync(join(registry, 'broken.json'), '{"name":');
    assert.match((await run('search', 'x', '--registry', registry)).err, /broken\.json is no server\.json/);
  });
});

describe('a registry of API v0.1', () => {
  let server: Server;
  let base: string;
  const asked: string[] = [];

  before(async () => {
    server = createServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url!, 'http://localhost');
      asked.push(request.url!);
      const json = (status: number, value: unknown) =>
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
      const all = [MEMORY, REMOTE, GONE].map((one) => ({
        server: one,
        _meta: {
          'io.modelcontextprotocol.registry/official': {
            status: one === GONE ? 'deleted' : one === REMOTE ? 'deprecated' : 'active',
          },
        },
      }));
      const version = /^\/v0\.1\/servers\/([^/]+)\/versions\/([^/]+)$/.exec(pathname);
      if (version !== null) {
        const found = all.find(({ server: { name } }) => name === decodeURIComponent(version[1]!));
        json(found === undefined ? 404 : 200, found ?? { error: 'not found' });
      } else if (pathname === '/v0.1/servers') {
        const servers = all.filter((one) => one.server.name.includes(searchParams.get('search') ?? ''));
        json(200, { servers, metadata: { count: servers.length } });
      } else if (pathname.startsWith('/html')) response.writeHead(200, { 'content-type': 'text/html' }).end('<html>');
      else json(500, {});
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => server.close());

  test('its address works with and without the version; states are shown, and unusable answers are reported', async () => {
    for (const address of [base, `${base}/`, `${base}/v0.1`]) {
      const found = await run('search', 'com.example', '--registry', address);
      assert.match(found.out, /^com\.example\/weather {2}2\.0\.0 {2}remote {2}deprecated {2}Weather of cities\n$/);
    }
    assert.ok(asked.includes('/v0.1/servers?version=latest&limit=50&search=com.example'), asked.join());
    options = { ...options, env: { ...options.env, TRUNKLINE_REGISTRY: base } };
    const added = await run('add', 'com.example/weather');
    assert.equal(added.code, 0, added.err);
    assert.match(added.err, /is deprecated/);
    assert.ok(asked.includes('/v0.1/servers/com.example%2Fweather/versions/latest'), asked.join());
    assert.match((await run('add', 'com.example/gone')).err, /com\.example\/gone was deleted/);
    assert.match((await run('add', 'com.example/none')).err, /there is no server "com\.example\/none"/);
    for (const [address, why] of [
      [`${base}/html`, /answers with something that is not JSON/],
      [`${base}/broken`, /answers 500 at/],
      ['http://127.0.0.1:9', /does not answer \(.*ECONNREFUSED|does not answer \(bad port/],
      ['http://no-such-host.invalid', /does not answer \(.*ENOTFOUND|EAI_AGAIN/],
    ] as const) {
      const { code, err } = await run('search', 'x', '--registry', address);
      assert.equal(code, 4, err);
      assert.match(err, why);
      assert.match(err, /name another one with --registry/);
    }
  });

  test('it is reached through the proxy of the environment, except for hosts in NO_PROXY', async (t) => {
    const through: string[] = [];
    const proxy = createServer(async (request, response) => {
      const { origin, pathname, search } = new URL(request.url!);
      through.push(origin);
      const answer = await fetch(`${base}${pathname}${search}`);
      response.writeHead(answer.status).end(await answer.text());
    });
    await new Promise<void>((done) => proxy.listen(0, '127.0.0.1', done));
    t.after(() => {
      proxy.closeAllConnections();
      proxy.close();
    });
    const own = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const search = (registry: string, address = own) => {
      const env = {
        ...options.env,
        HTTP_PROXY: address,
        http_proxy: address,
        NO_PROXY: '.invalid',
        no_proxy: '.invalid',
      };
      return trunkline(['search', 'com.example', '--registry', registry], { ...options, env });
    };
    const found = await search('http://registry.example/v0.1');
    assert.match(found.out, /^com\.example\/weather /, found.err);
    assert.match((await search('http://no-such-host.invalid')).err, /does not answer \(getaddrinfo/);
    assert.deepEqual(through, ['http://registry.example']);
    const gone = await search('http://registry.example', 'http://127.0.0.1:9');
    assert.deepEqual(
      [gone.code, /does not answer \(over the proxy 127\.0\.0\.1:9: /.test(gone.err)],
      [4, true],
      gone.err,
    );
    const odd = await search('http://registry.example', 'http://');
    assert.deepEqual([odd.code, /\(HTTP_PROXY is not the URL of a proxy\)/.test(odd.err)], [4, true], odd.err);
  });
});
