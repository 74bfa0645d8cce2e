import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { clientApps } from '../../app/clients/clients.ts';
import { runProgram } from '../program.ts';

/** A user without a terminal; the gateway of the current folder does not run and has the port that `port` sets. */
function user(t: TestContext, before: Readonly<Record<string, string>>) {
  const home = mkdtempSync(join(tmpdir(), 'trunkline-link-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  mkdirSync(join(home, 'project'));
  const apps = clientApps({ home, env: {}, platform: process.platform });
  const fileOf = (client: string): string => apps.find(({ id }) => id === client)!.files[0]!;
  for (const [client, text] of Object.entries(before)) {
    mkdirSync(dirname(fileOf(client)), { recursive: true });
    writeFileSync(fileOf(client), text);
  }
  return {
    fileOf,
    records: join(home, 'state/trunkline/links'),
    text: (client: string) => readFileSync(fileOf(client), 'utf8'),
    port(port: number) {
      writeFileSync(join(home, 'project/trunkline.json'), JSON.stringify({ mcpServers: {}, listen: { port } }));
    },
    async run(words: string): Promise<string> {
      let out = '';
      const write = (text: string): void => {
        out += text;
      };
      const terminal = {
        env: { HOME: home, XDG_STATE_HOME: join(home, 'state') },
        cwd: join(home, 'project'),
        version: '1.2.3',
        ask: null,
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

test('each of two names is unlinked alone, in any order, and the last makes the file what it was', async (t) => {
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

test('unlink takes the name that the user typed, and says which there are', async (t) => {
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
