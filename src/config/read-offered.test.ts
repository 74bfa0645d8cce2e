import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { revealed } from '../model/secret.ts';
import type { Server, StdioSpec } from '../model/server.ts';
import { folderOf } from './client.ts';
import { loadConfig } from './load-config.ts';
import { loadDefinition } from './load-definition.ts';
import { type Offer, readOffered } from './read-offered.ts';

const FIXTURES = join(import.meta.dirname, '../../test/fixtures/config');
const LISTEN = { host: '127.0.0.1', port: 4270 };
const ENV = {
  HOME: '/home/me',
  GITHUB_TOKEN: 'ghp_0123456789abcdef',
  DB_PASSWORD: 'hunter2',
  DOCS_API_KEY: 'docs-key-1234',
  TRUNKLINE_INPUT_PERPLEXITY_KEY: 'pplx-987654321',
  DB_CONNECTION_STRING: 'postgres://localhost/x',
  EXTERNAL_API_KEY: 'ext-key-1234',
  FIGMA_OAUTH_TOKEN: 'figd_123456',
  TRACE_TOKEN: 'trace-1234567',
  MY_TOKEN: 'my-token-123456',
  CI_KEY: 'ci-key-0123456789',
};

const read = (offer: Offer, folder = '/srv', mayRead = () => {}) =>
  readOffered(offer, { folder, env: ENV, listen: LISTEN, mayRead });

async function definitions(offer: Offer): Promise<Record<string, object>> {
  const result = await read(offer);
  assert.ok(result.ok, JSON.stringify(result));
  const all = result.servers.map(({ server, definition }) => [server.name, definition]);
  // The definition as a client receives it.
  return JSON.parse(JSON.stringify(Object.fromEntries(all)));
}

async function wrong(offer: Offer): Promise<string[]> {
  const result = await read(offer);
  assert.ok(!result.ok, JSON.stringify(result));
  return result.problems.map(({ code, line, column, message, fix }) => `${code} ${line}:${column} ${message}; ${fix}`);
}

function shown({ origin: _, transport, ...rest }: Server): object {
  const env = 'env' in transport ? { env: revealed(transport.env) } : {};
  const headers = 'headers' in transport ? { headers: revealed(transport.headers) } : {};
  // People read `written`: it has the default of an input.
  const { written: _written, ...spec } = transport as StdioSpec;
  return { ...rest, transport: { ...spec, ...env, ...headers } };
}

/** Files whose text is enough to recognise the client, without the path. */
const FILES: readonly (readonly [client: string, file: string])[] = [
  ['claude', '.mcp.json'],
  ['cursor', '.cursor/mcp.json'],
  ['vscode', '.vscode/mcp.json'],
  ['windsurf', 'mcp_config.json'],
  ['codex', '.codex/config.toml'],
  ['opencode', 'opencode.jsonc'],
  ['zed', 'zed/settings.json'],
  ['goose', 'goose/config.yaml'],
  ['goose-keys', 'goose/config.yaml'],
  ['copilot', '.copilot/mcp-config.json'],
  ['amp', '.config/amp/settings.json'],
  ['zed-extensions', 'zed/settings.json'],
  ['root-map', 'servers.json'],
  ['librechat', 'librechat.yaml'],
  ['gemini', '.gemini/settings.json'],
  ['own', 'trunkline.yaml'],
];

for (const [client, path] of FILES) {
  test(`a pasted file of ${client} yields the same servers as the file, also when they are added`, async () => {
    const file = join(FIXTURES, client, path);
    const folder = folderOf(file);
    const loaded = await loadConfig({ files: [file], cwd: '/', env: ENV });
    assert.ok(loaded.ok);
    const result = await read({ document: readFileSync(file, 'utf8') }, folder);
    assert.ok(result.ok, JSON.stringify(result));
    const servers: object[] = [];
    for (const { server, definition } of result.servers) {
      const text = JSON.stringify({ ...definition, name: server.name });
      const added = await loadDefinition({ text, name: null, folder, env: ENV });
      assert.ok(added.ok, JSON.stringify(added));
      assert.deepEqual(shown(added.server), shown(server));
      servers.push(shown(server));
    }
    assert.deepEqual(servers, [...loaded.state.servers.values()].map(shown));
    assert.ok(servers.length > 0);
  });
}

test('a command line is split as a shell does it, with its variables; an address may be in any case', async () => {
  const of = async (command: string, name: string | null = 'x') => (await definitions({ command, name }))['x'];
  assert.deepEqual(await of(`node -e 1 --root="my dir" --x='a b' "" a\\ b\\"c 'it'"'"'s' \\\n  --last`), {
    command: 'node',
    args: ['-e', '1', '--root=my dir', '--x=a b', '', 'a b"c', "it's", '--last'],
  });
  assert.deepEqual(await of('LOG=debug TOKEN="a b" npx -y server'), {
    command: 'npx',
    args: ['-y', 'server'],
    env: { LOG: 'debug', TOKEN: 'a b' },
  });
  assert.deepEqual(await of('HTTPS://example.com/mcp?a=1&b=2'), { url: 'HTTPS://example.com/mcp?a=1&b=2' });
  assert.deepEqual(Object.keys(await definitions({ command: 'npx -y @scope/server-memory', name: null })), ['memory']);
  assert.deepEqual(Object.keys(await definitions({ command: 'https://mcp.linear.app/mcp', name: null })), ['linear']);
});

test('a command line that adds a server to a client or to Trunkline yields that server', async () => {
  const mem = { command: 'npx', args: ['-y', 'mem', '--', '-e'], env: { A: 'b' } };
  for (const command of [
    'trunkline add mem -e A=b -- npx -y mem -- -e',
    'claude mcp add mem -e A=b -- npx -y mem -- -e',
    'npx -y @anthropic-ai/claude-code mcp add -s user --env A=b mem -- npx -y mem -- -e',
    'codex mcp add mem --env=A=b npx -y mem -- -- -e',
  ])
    assert.deepEqual(await definitions({ command, name: null }), { mem }, command);
  const url = 'https://docs.example/mcp';
  const docs = { url, type: 'http', headers: { 'X-Team': 'a b', 'X-B': 'c' } };
  const claude = `claude mcp add --transport http docs ${url} --header "X-Team: a b" 'X-B: c'`;
  assert.deepEqual(await definitions({ command: claude, name: null }), { docs });
  assert.deepEqual(await definitions({ command: claude, name: 'mine' }), { mine: docs });
  assert.deepEqual(await definitions({ command: `codex mcp add docs --url ${url}`, name: null }), { docs: { url } });
  assert.deepEqual(await definitions({ command: `trunkline add ${url}`, name: 'x' }), { x: { url } });
  assert.deepEqual(await definitions({ command: 'claude mcp add x -e CI_KEY -- node', name: null }), {
    x: { command: 'node', args: [], env: { CI_KEY: '${CI_KEY}' } },
  });
  assert.deepEqual(await definitions({ command: '-- node x', name: 'x' }), { x: { command: 'node', args: ['x'] } });
  assert.deepEqual(await definitions({ command: 'claude mcp serve', name: 'x' }), {
    x: { command: 'claude', args: ['mcp', 'serve'] },
  });
});

test('an invalid command or address is refused with its position', async (t) => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['htps://example.com/mcp', /^TL1408 1:1 .*scheme "htps"; only http and https are possible; write http/],
    ['https//example.com/mcp', /^TL1408 1:1 .*lacks its scheme; write http:\/\/ or https/],
    ['localhost:3000/mcp', /^TL1408 1:1 .*lacks its scheme/],
    ['https://example.com/mcp --verbose', /^TL1408 1:25 a url takes no arguments: --verbose/],
    ['example.com/mcp', /^TL1408 1:1 .*lacks its scheme; write http:/],
    ['-- -- node', /^TL1408 1:4 -- is no command/],
    ['claude mcp add x -e A=b https://x.example/', /^TL1306 1:21 a url takes no variables/],
    ['claude mcp add x -e 5 -- node', /^TL1101 1:21 the value of -e has no name before it; write NAME=value/],
    [
      'claude mcp add x --callback-port 8 https://x.example/',
      /^TL1101 1:18 --callback-port .*is not read here; write only/,
    ],
    ['claude mcp add x', /^TL1409 0:0 there is neither/],
    ['claude mcp add-json x {}', /^TL1101 1:1 .*from a JSON text; paste the JSON/],
    ['node "my dir', /^TL1101 1:6 this quote is never closed: "/],
    ["node --a='b", /^TL1101 1:10 this quote is never closed: '/],
    ['cd x && node y', /^TL1101 1:6 "&&" has a meaning in a shell only/],
    ['A=b', /^TL1409 0:0 /],
    ['', /^TL1409 0:0 /],
    ['http://127.0.0.1/mcp', /^TL1304 1:1 the name of the server is missing/],
  ];
  for (const [command, expected] of cases) {
    const [first, ...more] = await wrong({ command, name: null });
    assert.match(first!, expected, command);
    assert.deepEqual(more, [], command);
  }
  const folder = mkdtempSync(join(tmpdir(), 'offered-'));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'tools.bin'));
  writeFileSync(join(folder, 'tools.bin/mcp'), '');
  assert.ok((await read({ command: 'tools.bin/mcp', name: 'x' }, folder)).ok);
  assert.match((await wrong({ command: 'node x', name: 'my server' }))[0]!, /^TL1402 0:0 .*write "my-server"/);
});

test('a document is read with comments, trailing commas and without its braces, and in any layout', async () => {
  const docs = { docs: { command: 'node', args: ['d.js'] } };
  const same = [
    '{ "mcpServers": { "docs": { "command": "node", "args": ["d.js"] } } }',
    '\ufeff{ // mine\n "mcpServers": { "docs": { "command": "node", "args": ["d.js",], }, }, }',
    '{ "mcp": { "servers": { "docs": { "command": "node", "args": ["d.js"] } } } }',
    '{ "servers": { "docs": { "command": "node", "args": ["d.js"] } } }',
    '{ "context_servers": { "docs": { "command": "node", "args": ["d.js"], "source": "custom" } } }',
    '{ "docs": { "command": "node", "args": ["d.js"] } }',
    '"docs": { "command": "node", "args": ["d.js"] }',
    '{ "name": "docs", "command": "node", "args": ["d.js"] }',
    '[mcp_servers.docs]\ncommand = "node"\nargs = ["d.js"]\n',
    'mcpServers:\n  - name: docs\n    command: node\n    args: [d.js]\n',
  ];
  same.push(
    '"docs": { "command": "node", "args": ["d.js"] },',
    '```json\n{ "mcpServers": { "docs": { "command": "node", "args": ["d.js"] } } }\n```\n',
    '```\n"docs": { "command": "node", "args": ["d.js"] },\n```',
  );
  same.push(
    '"docs":\t{\n\t"command": "node",\n\t"args": ["d.js"]\n}\n',
    '\t"docs" : { /* mine */ "command": "node", "args": ["d.js"] // it\n}',
  );
  for (const document of same) assert.deepEqual(await definitions({ document }), docs, document);
  const nameless = { document: '{ "command": "node", "args": ["d.js"] }', name: 'docs' };
  assert.deepEqual(await definitions(nameless), docs);
  const two = '"a": { "command": "x" },\n"b": { "command": "y" },';
  assert.deepEqual(Object.keys(await definitions({ document: two })), ['a', 'b']);
  assert.match((await wrong({ document: '```\n{"a6": {"command": 5}}\n```' }))[0]!, /^TL1302 2:20 /);
  const opencode =
    '{ "mcp": { "docs": { "type": "local", "command": ["node"], "environment": { "T": "{env:MY_TOKEN}" } } } }';
  assert.deepEqual(await definitions({ document: opencode }), {
    docs: { type: 'local', command: ['node'], environment: { T: '${env:MY_TOKEN}' } },
  });
  const named = await read({
    document: '{ "mcpServers": { "My Docs": { "command": "node", "timeout": 30, "x": 1 } } }',
  });
  assert.ok(named.ok);
  assert.deepEqual({ ...named.servers[0]!.definition }, { command: 'node', timeoutMs: 30_000 });
  assert.equal(named.servers[0]!.server.name, 'My-Docs');
  assert.deepEqual(named.warnings.map(({ code }) => code).sort(), ['TL1301', 'TL1308', 'TL1403']);
});

test('a pasted file with settings of one client is read as that client reads it, nulls included', async () => {
  const gemini = { httpUrl: 'https://g.example/mcp', timeout: 5000, cwd: null };
  const telemetry = { enabled: true, target: 'local' };
  const settings = { telemetry, security: { auth: {} }, mcpServers: { gemini } };
  const google = await read({ document: JSON.stringify(settings) });
  assert.ok(google.ok, JSON.stringify(google));
  assert.equal(google.servers[0]!.definition['timeoutMs'], 5000);
  const theirs = { command: 'x', env: { PRICE: '$HOME' } };
  const claude = { theme: 'dark', projects: {}, mcpServers: { theirs } };
  assert.deepEqual(await definitions({ document: JSON.stringify(claude) }), { theirs });
  const chat =
    'version: 1.2.8\ncache: true\nendpoints:\n  agents: {}\nmcpServers:\n  chat:\n    command: x\n    timeout: 5000\n';
  const libre = await read({ document: chat });
  assert.ok(libre.ok, JSON.stringify(libre));
  assert.equal(libre.servers[0]!.definition['timeoutMs'], 5000);
  assert.deepEqual(await definitions({ document: '{ "mcpServers": { "a": { "command": "x", "env": null } } }' }), {
    a: { command: 'x' },
  });
});

test('a document without valid servers is refused with the position; each part left out causes a warning', async () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ['{"mcpServers": {}}', /^TL1401 1:1 no servers/],
    ['{"mcpServers": [{"command": "node"}]}', /^TL1304 1:17 mcpServers\[0\] needs a "name"/],
    ['{"mcpServers": {"a6": "node x"}}', /^TL1302 1:23 mcpServers.a6 must be a map.*"command"/],
    ['null', /^TL1005 /],
    ['node x', /^TL1005 .*not a map/],
    ['', /^TL1005 /],
    ['{"mcpServers": {"a": {"command": "x"}', /^TL1101 1:\d+ a "\}" is missing/],
    ['{"command": "node"}', /^TL1304 1:1 the server has no name; fill in the name/],
    ['{"mcpServers": {"a": {"url": "htps://x.example/"}}}', /^TL1408 1:30 .*scheme "htps"/],
    ['{"mcpServers": {"a-b": {"command": "x"}, "a_b": {"command": "y"}}}', /^TL1404 1:42 /],
  ];
  for (const [document, expected] of cases) {
    const [first, ...more] = await wrong({ document });
    assert.match(first!, expected, document);
    assert.deepEqual(more, [], document);
  }
  const own = { url: 'http://localhost:4270/mcp' };
  const all = { mcpServers: { trunkline: own, other: { command: 'node' } }, listen: { port: 4270 } };
  const result = await read({ document: JSON.stringify(all) });
  assert.ok(result.ok);
  assert.deepEqual(
    result.servers.map(({ server }) => server.name),
    ['other'],
  );
  assert.deepEqual(result.warnings.map(({ code }) => code).sort(), ['TL1307', 'TL1414']);
});

test('inputs of a document are asked for; secrets are kept apart from the definition', async () => {
  const document = JSON.stringify({
    inputs: [
      { id: 'mem-key', type: 'promptString', description: 'A key', password: true },
      { id: 'place', type: 'promptString', default: 'here' },
      { id: 'team', type: 'promptString' },
    ],
    servers: {
      mem: {
        command: 'x',
        args: ['${input:place}', '${input:team}'],
        env: { KEY: 'Key ${input:mem-key}', API_KEY: 'a-plain-key-1', MODE: 'fast' },
      },
      docs: { url: 'https://docs.example/mcp', headers: { Authorization: 'Bearer abc-def-1' } },
    },
  });
  const read = (values: Record<string, string>) =>
    readOffered(
      { document, values },
      { folder: '/srv', env: ENV, listen: LISTEN, mayRead: () => {}, keepsSecrets: true },
    );
  const without = await read({ team: '' });
  assert.ok(without.ok, JSON.stringify(without));
  assert.deepEqual(without.lacking, [
    { id: 'team', description: '', secret: false },
    { id: 'mem-key', description: 'A key', secret: true },
  ]);
  assert.deepEqual(
    without.servers.map(({ server }) => server.name),
    ['docs'],
  );
  assert.match(without.warnings[1]!.message, /mem is left out: its input "mem-key" has no value/);
  assert.match(without.warnings[1]!.fix, /\$\{secret:mem-mem-key\} and: trunkline secret set mem-mem-key/);
  const all = await read({ team: 'a${b}', 'mem-key': 'k${1}' });
  assert.ok(all.ok, JSON.stringify(all));
  const [mem, docs] = all.servers;
  assert.deepEqual(JSON.parse(JSON.stringify(mem!.definition)), {
    command: 'x',
    args: ['here', 'a$${b}'],
    env: { KEY: 'Key ${secret:mem-mem-key}', API_KEY: '${secret:mem-api_key}', MODE: 'fast' },
  });
  assert.deepEqual(Object.fromEntries(mem!.secrets), { 'mem-mem-key': 'k${1}', 'mem-api_key': 'a-plain-key-1' });
  assert.deepEqual(
    { ...(docs!.definition['headers'] as object) },
    { Authorization: 'Bearer ${secret:docs-authorization}' },
  );
  for (const { definition, secrets, server } of all.servers) {
    const text = JSON.stringify({ ...definition, name: server.name });
    const added = await loadDefinition({ text, name: null, folder: '/srv', env: ENV, stored: secrets });
    assert.ok(added.ok, JSON.stringify(added));
    assert.deepEqual(shown(added.server), shown(server));
  }
});

test('secrets of a login, of arguments and of addresses are kept apart, under a name each', async () => {
  const args = ['--api-key', 'key-00001', '--password=pass-0001', 'postgres://me:pass-0002@db.example/x'];
  const document = JSON.stringify({
    mcpServers: {
      a: { command: 'x', args },
      b: { url: 'https://b.example/mcp?token=tok-00001', auth: { CLIENT_ID: 'c', CLIENT_SECRET: 'very-secret-1' } },
    },
  });
  const sources = { folder: '/srv', env: ENV, listen: LISTEN, mayRead: () => {}, keepsSecrets: true };
  const all = await readOffered({ document }, sources);
  assert.ok(all.ok, JSON.stringify(all));
  const [a, b] = all.servers;
  assert.deepEqual(Object.fromEntries(a!.secrets), {
    'a-api-key': 'key-00001',
    'a-password': 'pass-0001',
    'a-password-2': 'pass-0002',
  });
  assert.deepEqual(Object.fromEntries(b!.secrets), { 'b-token': 'tok-00001', 'b-client_secret': 'very-secret-1' });
  for (const { definition, secrets, server } of all.servers) {
    const text = JSON.stringify({ ...definition, name: server.name });
    assert.doesNotMatch(text, /-000|very-secret/);
    const added = await loadDefinition({ text, name: null, folder: '/srv', env: ENV, stored: secrets });
    assert.ok(added.ok, JSON.stringify(added));
    assert.equal(added.server.connectionDigest, server.connectionDigest);
  }
});

test('the reader reports a definition that reads files or variables before it reads any of them', async () => {
  const told: string[] = [];
  const mayRead = (name: string): void => {
    told.push(name);
    throw new Error('not allowed');
  };
  const unread = (offer: Offer) =>
    assert.rejects(
      readOffered(offer, { folder: '/', env: ENV, listen: LISTEN, mayRead: refuseReading }),
      /not allowed/,
    );
  const refuseReading = (name: string, needs: readonly { kind: string }[]): void => {
    if (needs.some(({ kind }) => kind === 'reads')) mayRead(name);
  };
  await unread({ command: 'node ${file:/nowhere}', name: 'a' });
  await unread({ document: '{ "b": { "command": "node", "envFile": "/nowhere" } }' });
  await unread({ document: '{ "mcp": { "c": { "type": "remote", "url": "https://x.example/{env:MY_TOKEN}" } } }' });
  assert.deepEqual(told, ['a', 'b', 'c']);
});
