import assert from 'node:assert/strict';
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { clientApps } from '../../src/app/clients/clients.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { TestAuthority } from '../support/certificates.ts';
import { saidTo } from '../support/consent.ts';
import { manySided } from '../support/many-sided.ts';
import { startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

/** Files as their clients write them: comments, odd indentation, other settings, servers of all kinds. */
const FILES: Readonly<Record<string, string>> = {
  'claude-code': `{
  "numStartups": 12,
  "mcpServers": {
    "github": { "type": "http", "url": "https://api.example.com/mcp", "headers": { "Authorization": "Bearer ghp_abcdef1234567890" } },
    "files": {
      "command": "npx",
      "args": ["-y", "@scope/files", "/tmp"],
      "env": { "LOG": "1" }
    }
  },
  "projects": { "/elsewhere": { "mcpServers": {}, "history": [1.0, 2e3] } }
}`,
  'claude-desktop': '{"mcpServers":{"memory":{"command":"npx","args":["-y","@scope/memory"]}},"globalShortcut":""}\n',
  cursor: `{
  // my servers
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "@scope/files", "/tmp"], "env": { "LOG": "1" } }, // the same again
    /* with a variable */
    "mem": { "command": "npx", "args": ["-y", "@scope/mem"], "env": { "TOKEN": "\${env:HOME}" } }, // and a comma
  },
}
`,
  vscode:
    '{\r\n\t"servers": {\r\n\t\t"web": { "type": "http", "url": "https://w.example/mcp" }\r\n\t},\r\n\t"inputs": []\r\n}\r\n',
  copilot: '{\n    "mcpServers": {\n    }\n}\n',
  windsurf: '{ "mcpServers": { "w": { "serverUrl": "https://wind.example/mcp" } } }',
  codex: `model = "gpt"   # mine

[mcp_servers.github]
url = "https://api.other.example/mcp"
bearer_token_env_var = "HOME"

[mcp_servers.github.tools]   # of the one above
x = { approval_mode = "auto" }

# what follows is the terminal's
[tui]
theme = "dark"
`,
  gemini:
    '{\n\t"theme": "x",\n\t"mcpServers": {\n\t\t"search": { "httpUrl": "https://s.example/mcp", "timeout": 30000 }\n\t}\n}\n',
  opencode: `{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "local": { "type": "local", "command": ["npx", "-y", "@scope/local"], "enabled": true }
  }
}
`,
  zed: '// Zed settings\n{\n  "theme": "One Dark",\n  "context_servers": {},\n}\n',
  goose: `# goose
GOOSE_MODEL: x
extensions:
  developer:
    type: builtin
    enabled: true   # keep
  goosefiles:
    type: stdio
    cmd: npx
    args: [-y,   "@scope/goose"]
    enabled: true
    name: goosefiles
# the end
`,
  cline:
    '{\n  "mcpServers": {\n    "cl": {\n      "command": "npx", "args": ["-y", "@scope/cline"], "disabled": true\n    }\n  }\n}',
  roo: '{"mcpServers":{}}',
  continue: `name: mine
version: 1.0.0
schema: v1
models: []
mcpServers:
  - name: cont   # one
    command: npx
    args: ["-y",  "@scope/cont"]
`,
};

interface Machine {
  readonly home: string;
  readonly fileOf: (client: string) => string;
  /** The environment of the programs of this user. */
  readonly env: Readonly<Record<string, string | undefined>>;
  run(...args: string[]): Promise<{ code: number | null; out: string; err: string }>;
}

/** A home folder with the files of all clients, or of some. */
function machine(t: TestContext, clients: readonly string[] = Object.keys(FILES)): Machine {
  const home = mkdtempSync(join(tmpdir(), 'trunkline-clients-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const apps = clientApps({ home, env: {}, platform: process.platform });
  const fileOf = (client: string): string => apps.find(({ id }) => id === client)!.files[0]!;
  for (const client of clients) {
    mkdirSync(dirname(fileOf(client)), { recursive: true });
    writeFileSync(fileOf(client), FILES[client]!);
  }
  mkdirSync(join(home, 'project'));
  const env = { HOME: home, XDG_CONFIG_HOME: '', XDG_STATE_HOME: '', CODEX_HOME: undefined };
  return { home, fileOf, env, run: (...args) => trunkline(args, { cwd: join(home, 'project'), env }) };
}

/** The part of `before` that is missing in `after`: empty if `after` only has an insertion at one place. */
function without(before: string, after: string): string {
  let head = 0;
  while (head < before.length && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < before.length - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  return before.slice(head, before.length - tail);
}

/** The servers that Trunkline reads from the file, in the layout of its client. */
async function serversIn(file: string) {
  const loaded = await loadConfig({
    files: [file],
    cwd: dirname(file),
    env: { HOME: '/home/x' },
    keepsReferences: true,
  });
  assert.ok(loaded.ok, file);
  return loaded.state.servers;
}

test('link adds one entry to the file of each client, once even if it runs twice, and unlink restores every byte', async (t) => {
  const { fileOf, run } = machine(t);
  assert.deepEqual(
    Object.keys(FILES).sort(),
    clientApps({ home: '/', env: {}, platform: 'linux' })
      .map(({ id }) => id)
      .sort(),
  );
  const linked = await run('link', '--all', '--yes');
  assert.equal(linked.code, 0, linked.err);
  for (const [client, before] of Object.entries(FILES)) {
    const after = readFileSync(fileOf(client), 'utf8');
    assert.equal(without(before, after), '', `${client}: ${after}`);
    assert.equal(after.includes('\r\n'), before.includes('\r\n'), client);
    if (before.includes('\r\n')) assert.doesNotMatch(after, /[^\r]\n/);
    const { transport } = (await serversIn(fileOf(client))).get('tl')!;
    if (client === 'claude-desktop') assert.ok(transport.type === 'stdio' && transport.args.includes('stdio'));
    else assert.ok('url' in transport && transport.url === 'http://127.0.0.1:4270/mcp', client);
  }
  const texts = Object.keys(FILES).map((client) => readFileSync(fileOf(client), 'utf8'));
  assert.doesNotMatch((await run('link', '--all', '--yes')).out, / linked /);
  assert.deepEqual(
    Object.keys(FILES).map((client) => readFileSync(fileOf(client), 'utf8')),
    texts,
  );
  assert.equal((await run('unlink', '--all')).code, 0);
  for (const [client, before] of Object.entries(FILES))
    assert.equal(readFileSync(fileOf(client), 'utf8'), before, client);
});

test('unlink removes only the entry from a file changed since, and deletes a file that link made', async (t) => {
  const { fileOf, run } = machine(t);
  rmSync(fileOf('cursor'));
  assert.equal((await run('link', '--all', '--yes')).code, 0);
  const comments: Record<string, string> = {
    codex: '# later\n',
    goose: '# later\n',
    continue: '# later\n',
    zed: '// later\n',
  };
  for (const [client, comment] of Object.entries(comments)) appendFileSync(fileOf(client), comment);
  assert.equal((await run('unlink', '--all', '--yes')).code, 0);
  for (const [client, comment] of Object.entries(comments)) {
    const text = readFileSync(fileOf(client), 'utf8');
    assert.ok(text.endsWith(comment), client);
    assert.doesNotMatch(text, /4270/);
    if (client !== 'codex') assert.equal((await serversIn(fileOf(client))).has('tl'), false, client);
  }
  assert.match(readFileSync(fileOf('codex'), 'utf8'), /# what follows is the terminal's\n\[tui\]\ntheme = "dark"\n/);
  assert.equal(existsSync(fileOf('cursor')), false, 'the file that link made is gone');
});

test('link shows the change, asks, and leaves a file that it cannot read as it is', async (t) => {
  const { fileOf, run } = machine(t, ['cursor', 'gemini']);
  const asked = await run('link', 'cursor');
  assert.equal(asked.code, 1);
  assert.match(asked.out, /\+ +"tl": \{/);
  assert.match(asked.err, /nothing was written: add --yes/);
  assert.equal(readFileSync(fileOf('cursor'), 'utf8'), FILES['cursor']);
  writeFileSync(fileOf('gemini'), '{ "mcpServers": { "a": }');
  const broken = await run('link', 'cursor', 'gemini', '--yes');
  assert.equal(broken.code, 1);
  assert.match(broken.out, /Cursor +linked/);
  assert.match(broken.out, /Gemini CLI +failed .*line 1/);
  assert.equal(readFileSync(fileOf('gemini'), 'utf8'), '{ "mcpServers": { "a": }');
  for (const [args, words] of [
    [['link', 'curser'], /did you mean "cursor"/],
    [['link', 'claude'], /there is no client "claude"; did you mean "claude-code" or "claude-desktop"\?/],
    [['link'], /name a client, or --all; found: cursor, gemini/],
    [['link', 'cursor', '--url', 'localhost:1'], /is not an http or https URL/],
    [['link', 'cursor', '--url', 'http://127.0.0.1:99/mcp'], /was not reached: nothing listens there/],
  ] as const) {
    const { code, err } = await run(...args);
    assert.ok(code !== 0 && words.test(err), `${args.join(' ')}: ${err}`);
  }
});

test('link writes no --url for a client that starts local servers only, and says why', async (t) => {
  const { fileOf, run, home, env } = machine(t, ['claude-desktop', 'cursor']);
  const gateway = await RunningGateway.start({ config: { mcpServers: { good: manySided('good') } } });
  t.after(() => gateway.dispose());
  const { code, out } = await run('link', '--all', '--yes', '--url', gateway.mcpUrl);
  assert.equal(code, 1);
  assert.match(out, /Claude Desktop +failed .*: it starts local servers only, so that --url cannot be written for it/);
  assert.match(out, /Cursor +linked/);
  assert.equal(readFileSync(fileOf('claude-desktop'), 'utf8'), FILES['claude-desktop']);
  assert.equal((await run('unlink', 'claude-desktop', '--yes', '--json')).out.includes('nothing to change'), true);
  // The gateway of this folder is another one: its start screen does not show the client as linked.
  const cwd = join(home, 'project');
  writeFileSync(join(cwd, 'trunkline.json'), '{ "mcpServers": {} }');
  const own = startTrunkline(['--port', '0', '--control-port', '0'], { cwd, env });
  t.after(async () => {
    own.process.kill();
    await own.exited;
  });
  await saidTo(own, /Connect/);
  assert.doesNotMatch(own.out, /Linked/);
  assert.match(own.out, /^ {2}Link +trunkline link --all +\(Claude Desktop, Cursor\)$/m);
});

test('link before the first start writes the address of the configuration file', async (t) => {
  const { fileOf, run, home } = machine(t, ['cursor']);
  const authority = new TestAuthority();
  const { cert, key } = authority.issue({ name: 'gateway', hosts: ['127.0.0.3'] });
  const project = join(home, 'project');
  writeFileSync(join(project, 'cert.pem'), cert);
  writeFileSync(join(project, 'key.pem'), key, { mode: 0o600 });
  const tls = { cert: 'cert.pem', key: 'key.pem' };
  for (const [settings, url] of [
    [{ listen: { port: 4999 } }, 'http://127.0.0.1:4999/mcp'],
    [{ listen: { host: '127.0.0.3' } }, 'http://127.0.0.3:4270/mcp'],
    [{ listen: { host: '127.0.0.3', port: 4998 }, tls }, 'https://127.0.0.3:4998/mcp'],
  ] as const) {
    writeFileSync(join(project, 'trunkline.json'), JSON.stringify({ mcpServers: {}, ...settings }));
    const { code, err } = await run('link', 'cursor', '--yes');
    assert.equal(code, 0, err);
    const { transport } = (await serversIn(fileOf('cursor'))).get('tl')!;
    assert.equal('url' in transport && transport.url, url, err);
  }
});

test('link writes the key that the gateway asks for and shows none; --replace leaves only the gateway in the file', async (t) => {
  const { fileOf, run } = machine(t, ['cursor']);
  const agents = { ada: { key: 'key-of-ada-0123456789' } };
  const gateway = await RunningGateway.start({ config: { mcpServers: { good: manySided('good') }, agents } });
  t.after(() => gateway.dispose());
  const url = ['--url', gateway.mcpUrl, '--yes'];
  assert.match((await run('link', 'cursor', ...url)).err, /lets in agents with a key only/);
  assert.match((await run('link', 'cursor', ...url, '--key', 'wrong-key-0123456789')).err, /does not know this key/);
  const { code, out } = await run('link', 'cursor', ...url, '--key', agents.ada.key, '--replace');
  assert.equal(code, 0);
  assert.doesNotMatch(out, /key-of-ada/);
  assert.deepEqual([...(await serversIn(fileOf('cursor'))).keys()], ['tl']);
  assert.match(readFileSync(fileOf('cursor'), 'utf8'), /Bearer key-of-ada-0123456789/);
  assert.equal((await run('unlink', 'cursor')).code, 0);
  assert.equal(readFileSync(fileOf('cursor'), 'utf8'), FILES['cursor']);
});

test('a gateway that serves the file of a linked client leaves itself out', async (t) => {
  const { fileOf, run } = machine(t, ['cursor', 'claude-desktop']);
  await run('link', '--all', '--yes');
  for (const client of ['cursor', 'claude-desktop']) {
    const loaded = await loadConfig({ files: [fileOf(client)], cwd: '/', env: { HOME: '/' } });
    assert.ok(loaded.ok && !loaded.state.servers.has('tl') && loaded.state.servers.size > 0);
    assert.match(
      loaded.warnings.map(({ message }) => message).join(),
      /mcpServers\.tl is this gateway, and is left out/,
    );
  }
});

test('import adds the servers of all clients, each once, and their secrets to the store', async (t) => {
  const { run, fileOf } = machine(t);
  await run('link', 'zed', '--yes');
  const asked = await run('import');
  assert.deepEqual([asked.code, /add --yes/.test(asked.err)], [1, true]);
  const { code, out, err } = await run('import', '--yes');
  assert.equal(code, 0, err + out);
  assert.match(out, /files +npx -y @scope\/files \/tmp +\(Claude Code, Cursor\)/);
  assert.match(out, /github-codex +https:\/\/api\.other/);
  assert.match(out, /tl \(Zed\): it is Trunkline itself/);
  assert.match(out, /cl \(Cline\): it is disabled there/);
  assert.doesNotMatch(out, /ghp_/);
  assert.match((await run('secret', 'list')).out, /^github-authorization /m);
  const again = await run('import', '--yes', '--json');
  const { added, left } = JSON.parse(again.out);
  assert.deepEqual(added, []);
  assert.ok(
    left.some(({ name, reason }: { name: string; reason: string }) => name === 'github' && /already/.test(reason)),
  );
  for (const [client, before] of Object.entries(FILES))
    if (client !== 'zed')
      assert.equal(readFileSync(fileOf(client), 'utf8'), before, 'files of clients stay as they are');
});

test('import removes the secrets of a server that is refused, and keeps those of the others', async (t) => {
  const { home, run } = machine(t, []);
  const file = join(home, 'project', 'servers.json');
  const withKey = (key: string) => ({
    url: 'https://api.example.com/mcp',
    headers: { Authorization: `Bearer ${key}` },
  });
  const imported = (mcpServers: object) => {
    writeFileSync(file, JSON.stringify({ mcpServers }));
    return run('import', file, '--yes', '--json');
  };
  const secrets = async (): Promise<string[]> =>
    JSON.parse((await run('secret', 'list', '--json')).out).secrets.map(({ name }: { name: string }) => name);
  assert.deepEqual(JSON.parse((await imported({ one_two: withKey('ghp_first1234567890') })).out).added, ['one_two']);
  const { code, out } = await imported({
    'one-two': withKey('ghp_second123456789'),
    other: withKey('ghp_third1234567890'),
  });
  const { added, left } = JSON.parse(out);
  assert.deepEqual([code, added, left.map(({ name }: { name: string }) => name)], [1, ['other'], ['one-two']], out);
  assert.deepEqual((await secrets()).sort(), ['one_two-authorization', 'other-authorization']);
});

test('--replace fails if a running gateway has one of the servers from this file alone', {
  timeout: 60_000,
}, async (t) => {
  const { home, fileOf, run, env } = machine(t, []);
  mkdirSync(dirname(fileOf('cursor')), { recursive: true });
  const before = JSON.stringify({ mcpServers: { many: manySided('many') } });
  writeFileSync(fileOf('cursor'), before);
  const gateway = startTrunkline(['--port', '0', '--control-port', '0'], { cwd: join(home, 'project'), env });
  t.after(async () => {
    gateway.process.kill();
    await gateway.exited;
  });
  await saidTo(gateway, /Connect/);
  assert.match((await run('import', '--yes')).out, /many: there is a server of this name already/);
  const { code, out } = await run('link', 'cursor', '--replace', '--yes');
  assert.equal(code, 1);
  assert.match(out, /failed .*a running gateway has many from this file alone; import them first: trunkline stop; /);
  assert.equal(readFileSync(fileOf('cursor'), 'utf8'), before);
  assert.equal((await run('link', 'cursor', '--yes')).code, 0);
});

test('two commands, import and link, lead from the files of clients to a call', { timeout: 60_000 }, async (t) => {
  const { home, fileOf, run, env } = machine(t, []);
  mkdirSync(dirname(fileOf('cursor')), { recursive: true });
  mkdirSync(dirname(fileOf('claude-desktop')), { recursive: true });
  writeFileSync(fileOf('cursor'), JSON.stringify({ mcpServers: { many: manySided('many') } }));
  assert.equal((await run('import', '--yes')).code, 0);
  const cwd = join(home, 'project');
  const gateway = startTrunkline(['--port', '0', '--control-port', '0'], { cwd, env });
  t.after(async () => {
    gateway.process.kill();
    await gateway.exited;
  });
  await saidTo(gateway, /Connect/);
  assert.match(gateway.out, /^ {2}Link {5}trunkline link --all +\(Claude Desktop, Cursor\)$/m);
  assert.equal((await run('link', '--all', '--yes', '--replace')).code, 0);

  const { url } = JSON.parse(readFileSync(fileOf('cursor'), 'utf8')).mcpServers.tl;
  const http = await WireClient.open(url);
  assert.equal(await http.callText('many__echo', { text: 'by url' }), 'by url');
  // Claude Desktop starts the bridge in a folder of its own.
  const { command, args } = JSON.parse(readFileSync(fileOf('claude-desktop'), 'utf8')).mcpServers.tl;
  const desktop = new Client({ name: 'desktop', version: '1' });
  await desktop.connect(
    new StdioClientTransport({ command, args, cwd: '/', env: { ...process.env, ...env } as never }),
  );
  const { content } = await desktop.callTool({ name: 'many__echo', arguments: { text: 'by stdio' } });
  assert.deepEqual(content, [{ type: 'text', text: 'by stdio' }]);
  await desktop.close();
});
