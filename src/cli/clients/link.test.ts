import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type ClientApp, clientApps } from '../../app/clients/clients.ts';
import { entryIn, namesIn } from '../../app/clients/edit-file.ts';
import type { Terminal } from '../command-input.ts';
import { runProgram } from '../program.ts';

/** A user without a terminal; the gateway of the current folder does not run and has the port that `port` sets. */
function user(t: TestContext, before: Readonly<Record<string, string>>) {
  const home = mkdtempSync(join(tmpdir(), 'trunkline-link-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  mkdirSync(join(home, 'project'));
  const apps = clientApps({ home, env: {}, platform: process.platform });
  const appOf = (client: string): ClientApp => apps.find(({ id }) => id === client)!;
  const fileOf = (client: string): string => appOf(client).files[0]!;
  for (const [client, text] of Object.entries(before)) {
    mkdirSync(dirname(fileOf(client)), { recursive: true });
    writeFileSync(fileOf(client), text);
  }
  return {
    fileOf,
    records: join(home, 'state/trunkline/links'),
    text: (client: string) => readFileSync(fileOf(client), 'utf8'),
    /** The servers in the file of a client, by name. */
    servers(client: string): Readonly<Record<string, unknown>> {
      const text = readFileSync(fileOf(client), 'utf8');
      return Object.fromEntries(namesIn(text, appOf(client)).map((name) => [name, entryIn(text, appOf(client), name)]));
    },
    port(port: number) {
      writeFileSync(join(home, 'project/trunkline.json'), JSON.stringify({ mcpServers: {}, listen: { port } }));
    },
    async run(words: string, ask: Terminal['ask'] = null): Promise<string> {
      let out = '';
      const write = (text: string): void => {
        out += text;
      };
      const terminal = {
        env: { HOME: home, XDG_STATE_HOME: join(home, 'state') },
        cwd: join(home, 'project'),
        version: '1.2.3',
        ask,
      };
      await runProgram(words.split(' '), { out: write, err: write, ...terminal });
      return out;
    },
  };
}

const BEFORE = {
  cursor: '{\n  // mine\n  "mcpServers": { "a": { "command": "x" } }\n}\n',
  codex: '[mcp_servers.a]\ncommand = "x"\n\n\n# the end',
  goose: 'extensions:\n  a: { type: stdio, cmd: x }\n# the end',
};

test('unlink does not bring back an entry of an earlier link, where the client wrote its file in between', async (t) => {
  const { run, text, port, fileOf } = user(t, BEFORE);
  for (const client of Object.keys(BEFORE)) {
    port(4999);
    await run(`link ${client} --yes`);
    const changed = `${text(client).trimEnd()}\n${client === 'cursor' ? '// later' : '# later'}\n`;
    writeFileSync(fileOf(client), changed);
    port(4998);
    assert.match(await run(`link ${client} --yes`), / linked /);
    assert.match(await run(`unlink ${client}`), / unlinked /, client);
    assert.doesNotMatch(text(client), /499\d|tl/, client);
    assert.match(text(client), /later\n/);
  }
});

const REPLACED = { ...BEFORE, continue: 'mcpServers:\n  - name: a\n    command: x\n    env: { TOKEN: k }\n' };

test('unlink puts what --replace took out back into a file that its client has changed, and says which', async (t) => {
  const { run, text, port, fileOf, servers, records } = user(t, REPLACED);
  for (const [client, first] of Object.entries(REPLACED)) {
    const later = `${client === 'cursor' ? '//' : '#'} later\n`;
    const rewrite = (): void => writeFileSync(fileOf(client), `${text(client).trimEnd()}\n${later}`);
    const before = servers(client);
    const replace = async (): Promise<void> => {
      writeFileSync(fileOf(client), first);
      port(4999);
      assert.match(await run(`link ${client} --replace --yes`), / linked /);
      assert.deepEqual(Object.keys(servers(client)), ['tl']);
    };
    const isBack = async (words: RegExp): Promise<void> => {
      assert.match(await run(`unlink ${client} --yes`), words, client);
      assert.deepEqual(servers(client), before, client);
      assert.match(text(client), / later\n/);
      assert.equal(existsSync(join(records, `${client}.json`)), false);
    };
    const said = / unlinked .*, with what link had replaced: a\n/;
    await replace();
    rewrite();
    await isBack(said);

    // The second link finds a file without them.
    await replace();
    rewrite();
    port(4998);
    assert.match(await run(`link ${client} --yes`), / linked /);
    await isBack(/ unlinked /);

    await replace();
    rewrite();
    await run(`link ${client} --name work --replace --yes`);
    rewrite();
    await isBack(said);

    // The client has taken out the entry of the link, too.
    await replace();
    writeFileSync(fileOf(client), client === 'cursor' ? `{} ${later}` : later);
    await isBack(said);
  }
});

test('unlink leaves a server that the user has added under the name of a replaced one', async (t) => {
  const { run, servers, fileOf } = user(t, { cursor: BEFORE.cursor });
  await run('link cursor --replace --yes');
  const { tl } = servers('cursor');
  const own = { command: 'new' };
  writeFileSync(fileOf('cursor'), JSON.stringify({ mcpServers: { tl, a: own } }));
  assert.doesNotMatch(await run('unlink cursor --yes'), /replaced/);
  assert.deepEqual(servers('cursor'), { a: own });
});

test('unlink does not put back a server that the user added again before a later link, and removed', async (t) => {
  const { run, servers, fileOf } = user(t, { cursor: BEFORE.cursor });
  await run('link cursor --replace --yes');
  const { tl } = servers('cursor');
  writeFileSync(fileOf('cursor'), JSON.stringify({ mcpServers: { tl, a: { command: 'new' } } }));
  await run('link cursor --name work --yes');
  const { work } = servers('cursor');
  writeFileSync(fileOf('cursor'), JSON.stringify({ mcpServers: { tl, work } }));
  await run('unlink cursor --name work --yes');
  assert.doesNotMatch(await run('unlink cursor --yes'), /replaced/);
  assert.deepEqual(servers('cursor'), {});
});

test('unlink puts back a server whose name link took, and leaves all as it is where the user refuses', async (t) => {
  const own = { url: 'https://other.example/mcp', headers: { 'X-Key': 'k' } };
  const { run, servers, text, fileOf } = user(t, { cursor: JSON.stringify({ mcpServers: { tl: own } }) });
  await run('link cursor --yes');
  writeFileSync(fileOf('cursor'), `${text('cursor')}\n`);
  assert.match(await run('unlink cursor', async () => 'n'), / left as it is /);
  const { clients } = JSON.parse(await run('unlink cursor --yes --json'));
  assert.deepEqual(clients, [
    { client: 'cursor', done: 'unlinked', file: fileOf('cursor'), error: null, putBack: ['tl'] },
  ]);
  assert.deepEqual(servers('cursor'), { tl: own });
});

test('link refuses a file that its entry would make invalid, and says how to write it', async (t) => {
  const inline = 'mcp_servers = { a = { command = "x" } }\n';
  const { run, text, records } = user(t, { codex: inline });
  const said = /failed .*it cannot be edited \(mcp_servers cannot be .*: \[mcp_servers\.<name>\]\); correct it/;
  assert.match(await run('link codex --yes'), said);
  assert.equal(text('codex'), inline);
  assert.equal(existsSync(join(records, 'codex.json')), false);
});

test('what a client writes while the user is asked stays, and nothing else is written', async (t) => {
  const { run, text, fileOf, records } = user(t, { cursor: BEFORE.cursor });
  const written = (later: string) => async (): Promise<string> => {
    writeFileSync(fileOf('cursor'), later);
    return 'y';
  };
  const changed = / failed .*it was changed meanwhile, and nothing was written; try again/;
  const first = `// first\n${BEFORE.cursor}`;
  assert.match(await run('link cursor', written(first)), changed);
  assert.equal(text('cursor'), first);
  assert.equal(existsSync(join(records, 'cursor.json')), false);
  assert.match(await run('link cursor', async () => 'y'), / linked /);
  const second = `// second\n${text('cursor')}`;
  writeFileSync(fileOf('cursor'), `${text('cursor')}\n`);
  assert.match(await run('unlink cursor', written(second)), changed);
  assert.equal(text('cursor'), second);
  assert.match(await run('unlink cursor', async () => 'y'), / unlinked /);
  assert.equal(text('cursor'), `// second\n${first}`);
});

test('two names are unlinked one by one, in any order, and the last unlink restores the file', async (t) => {
  const { run, text, port } = user(t, BEFORE);
  for (const client of Object.keys(BEFORE) as (keyof typeof BEFORE)[]) {
    for (const order of [
      ['tl', 'work'],
      ['work', 'tl'],
    ]) {
      port(4999);
      await run(`link ${client} --yes`);
      port(4998);
      await run(`link ${client} --name work --yes`);
      assert.match(await run(`unlink ${client} --name ${order[0]}`), / unlinked /);
      const [left, gone] = order[0] === 'tl' ? [/4998/, /4999|tl/] : [/4999/, /4998|work/];
      assert.match(text(client), left);
      assert.doesNotMatch(text(client), gone);
      assert.match(await run(`unlink ${client}`), / unlinked /);
      assert.equal(text(client), BEFORE[client]);
    }
  }
});

test('unlink requires --name and lists the names when there are two, and needs none when there is one', async (t) => {
  const { run, text, fileOf } = user(t, { cursor: BEFORE.cursor });
  await run('link cursor --name work --yes');
  await run('link cursor --name play --yes');
  assert.match(await run('unlink cursor'), /nothing to change .*it is linked as work, play: name one with --name/);
  writeFileSync(fileOf('cursor'), `${text('cursor')}\n`);
  assert.match(await run('unlink cursor --name work --yes'), / unlinked /);
  assert.doesNotMatch(text('cursor'), /"work"/);
  assert.match(await run('unlink cursor --yes'), / unlinked /);
  assert.equal(text('cursor'), `${BEFORE.cursor}\n`);
});

test('a record of an earlier version restores its file', async (t) => {
  const { run, text, records, fileOf } = user(t, { cursor: BEFORE.cursor });
  await run('link cursor --name old --yes');
  const record = join(records, 'cursor.json');
  const { entries, ...rest } = JSON.parse(readFileSync(record, 'utf8'));
  const [{ name, url }] = entries;
  writeFileSync(record, JSON.stringify({ ...rest, name, url }));
  await run('link cursor --yes');
  assert.match(text('cursor'), /old[\s\S]*tl/);
  assert.match(await run('unlink cursor --name old'), / unlinked /);
  writeFileSync(
    record,
    JSON.stringify({ ...JSON.parse(readFileSync(record, 'utf8')), entries: undefined, name: 'tl' }),
  );
  assert.match(await run('unlink cursor'), / unlinked /);
  assert.equal(readFileSync(fileOf('cursor'), 'utf8'), BEFORE.cursor);
  assert.equal(existsSync(record), false);
});

test('the entry of Goose has the name of the link, which Goose puts in front of each tool', async (t) => {
  const { run, text } = user(t, { goose: BEFORE.goose });
  await run('link goose --yes');
  assert.match(text('goose'), /\n {2}tl:\n(?: {4}.*\n)* {4}name: tl\n/);
  await run('link goose --name work --yes');
  assert.match(text('goose'), /\n {2}work:\n(?: {4}.*\n)* {4}name: work\n/);
});

test('a second link changes only the address and the key: settings of client and user in the entry stay', async (t) => {
  const { run, text, port, fileOf } = user(t, { ...BEFORE, copilot: '{}', continue: 'name: mine\n' });
  const clients = ['cursor', 'codex', 'goose', 'copilot', 'continue'];
  const change = (client: string, from: string, to: string): void => {
    assert.ok(text(client).includes(from), text(client));
    writeFileSync(fileOf(client), text(client).replace(from, to));
  };
  port(4999);
  await run(`link ${clients.join(' ')} --key key-of-ada-0123456789 --yes`);
  change('cursor', '"headers": {', '"autoApprove": ["a__b"], "headers": { "X-Team": "t",');
  change(
    'codex',
    '[mcp_servers.tl.http',
    'tool_timeout_sec = 600\n\n[mcp_servers.tl.tools.b]\nmode = "auto"\n\n[mcp_servers.tl.http',
  );
  change('goose', 'timeout: 300', 'timeout: 600');
  change('goose', 'tl:\n    enabled: true', 'tl:\n    enabled: false');
  change('copilot', '"*"', '"a__b"');
  change('continue', 'type:', 'connectionTimeout: 9\n    type:');
  const before = clients.map(text);
  assert.doesNotMatch(await run(`link ${clients.join(' ')} --key key-of-ada-0123456789 --yes`), / linked /);
  assert.deepEqual(clients.map(text), before);
  port(4998);
  await run(`link ${clients.join(' ')} --yes`);
  for (const client of clients) {
    assert.match(text(client), /127\.0\.0\.1:4998/, client);
    assert.doesNotMatch(text(client), /4999|key-of-ada/, client);
  }
  assert.match(text('cursor'), /"autoApprove": \[\s*"a__b"\s*\],\s*"headers": \{\s*"X-Team": "t"\s*\}/);
  assert.match(text('codex'), /tool_timeout_sec = 600[\s\S]*\[mcp_servers\.tl\.tools\.b\]\nmode = "auto"/);
  assert.doesNotMatch(text('codex'), /http_headers/);
  assert.match(text('goose'), /enabled: false[\s\S]*timeout: 600/);
  assert.match(text('copilot'), /"tools": \[\s*"a__b"\s*\]/);
  assert.match(text('continue'), /connectionTimeout: 9/);
  assert.doesNotMatch(text('continue'), /requestOptions/);
  for (const client of clients) assert.match(await run(`unlink ${client} --yes`), / unlinked /);
  for (const client of clients) assert.doesNotMatch(text(client), /4998/, client);
});

test('link replaces an entry of that name that it did not write, or that the user replaced', async (t) => {
  const other = '{ "mcpServers": { "tl": { "url": "https://other.example/mcp", "headers": { "X-Key": "k" } } } }\n';
  const { run, text, fileOf } = user(t, { cursor: other });
  await run('link cursor --yes');
  assert.doesNotMatch(text('cursor'), /X-Key/);
  writeFileSync(fileOf('cursor'), '{ "mcpServers": { "tl": { "command": "x" } } }\n');
  await run('link cursor --yes');
  assert.doesNotMatch(text('cursor'), /command/);
  // Headers of another server, or for a gateway on another host, are not for this one.
  writeFileSync(fileOf('cursor'), other);
  await run('link cursor --yes');
  assert.doesNotMatch(text('cursor'), /X-Key/);
  const gateway = createServer((_, response) => response.end('{}'));
  await once(gateway.listen(0, '127.0.0.2'), 'listening');
  t.after(() => gateway.close());
  writeFileSync(fileOf('cursor'), text('cursor').replace('"url"', '"headers": { "X-Key": "k" }, "url"'));
  const { port } = gateway.address() as AddressInfo;
  assert.match(await run(`link cursor --yes --url http://127.0.0.2:${port}/mcp`), / linked /);
  assert.doesNotMatch(text('cursor'), /X-Key/);
  await run('link claude-desktop --yes');
  writeFileSync(
    fileOf('claude-desktop'),
    '{ "mcpServers": { "tl": { "command": "x", "args": [], "env": { "TOKEN": "k" } } } }',
  );
  await run('link claude-desktop --yes');
  assert.doesNotMatch(text('claude-desktop'), /TOKEN/);
});

test('a byte-order mark stays, and a file that is not UTF-8 is refused and stays as it is', async (t) => {
  const { run, text, fileOf } = user(
    t,
    Object.fromEntries(Object.entries(BEFORE).map(([id, was]) => [id, `\ufeff${was}`])),
  );
  for (const client of Object.keys(BEFORE)) {
    assert.match(await run(`link ${client} --yes`), / linked /);
    assert.equal(text(client).startsWith('\ufeff') && !text(client).slice(1).includes('\ufeff'), true, client);
    writeFileSync(fileOf(client), `${text(client)}\n`);
    assert.match(await run(`unlink ${client} --yes`), / unlinked /);
    assert.equal(text(client).trimEnd(), `\ufeff${BEFORE[client as keyof typeof BEFORE]}`.trimEnd());
  }
  const latin = Buffer.from('# caf\u00e9\n', 'latin1');
  writeFileSync(fileOf('codex'), latin);
  assert.match(await run('link codex --yes'), /failed .*not UTF-8/);
  assert.match(await run('unlink codex --yes'), /failed .*not UTF-8/);
  assert.deepEqual(readFileSync(fileOf('codex')), latin);
});

test('link to an address that is no MCP endpoint is refused, with the reason', async (t) => {
  const { run, text } = user(t, { cursor: BEFORE.cursor });
  let status = 404;
  const server = createServer((_, response) => response.writeHead(status).end('the page says why'));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const link = (): Promise<string> => run(`link cursor --yes --url http://127.0.0.1:${port}`);
  assert.match(await link(), /there is no MCP endpoint at http:\S+; that of a gateway ends in \/mcp/);
  status = 502;
  assert.match(await link(), /answers with 502: the page says why/);
  assert.match(
    await run(`link cursor --yes --url http://127.0.0.1:${port} --key schl\u00fcssel-\u4e00`),
    /no header can carry/,
  );
  const silent = await run('link cursor --yes --url http://127.0.0.1:99/mcp');
  assert.match(silent, /was not reached: nothing listens there; check listen\.host and listen\.port/);
  assert.equal(text('cursor'), BEFORE.cursor);
});
