import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { manySided } from '../support/many-sided.ts';
import { PersonTerminal } from '../support/person-terminal.ts';
import { trunkline } from '../support/run-trunkline.ts';

const CRASHES = { command: process.execPath, args: ['-e', "throw new Error('DATABASE_URL is required')"] };
const COLOUR = /\x1b\[[\d;]*m/;
const HANGS = { command: 'sleep', args: ['600'] };

interface Place {
  readonly cwd: string;
  readonly file: string;
  readonly data: readonly string[];
  /** An environment without files of the user of this machine. */
  readonly env: Readonly<Record<string, string>>;
  write(config: object | string): void;
}

function place(t: TestContext, config: object): Place {
  const cwd = mkdtempSync(join(tmpdir(), 'trunkline-terminal-'));
  t.after(() => rmSync(cwd, { recursive: true, force: true }));
  const home = join(cwd, 'home');
  mkdirSync(home);
  const file = join(cwd, '.mcp.json');
  const write = (content: object | string): void =>
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  write(config);
  return { cwd, file, data: ['--data-dir', join(cwd, 'data')], env: { HOME: home, XDG_CONFIG_HOME: '' }, write };
}

async function open(
  t: TestContext,
  { cwd, data, env }: Place,
  more: Partial<Parameters<typeof PersonTerminal.open>[1]> & { readonly args?: readonly string[] } = {},
): Promise<PersonTerminal> {
  const { args = [], ...options } = more;
  const terminal = await PersonTerminal.open(['--port', '0', '--control-port', '0', ...data, ...args], {
    cwd,
    columns: 100,
    rows: 30,
    ...options,
    env: { ...env, ...options.env },
  });
  t.after(() => terminal.end());
  return terminal;
}

test('rows change in place without records between them; the way to connect is shown during the start', async (t) => {
  const terminal = await open(t, place(t, { mcpServers: { crash: CRASHES, good: manySided('good'), hang: HANGS } }));
  const first = await terminal.sees(/hang +starting +\d+ s/);
  assert.match(first, /^ {2}Connect {2}claude mcp add -t http tl http:\/\/127\.0\.0\.1:\d+\/mcp$/m);
  const later = await terminal.sees(/crash +retry .*\n.*good +ready +10 tools[\s\S]*hang +starting +[2-9] s/);
  assert.match(later, /crash +retry +in \d+ s: exited with code 1: Error: DATABASE_URL is required$/m);
  assert.match(later, /^ {2}Servers {2}1 of 3 ready, 10 tools, 1 starting$/m);
  for (const name of ['crash', 'good', 'hang']) {
    assert.equal(later.match(new RegExp(`^ {4}${name} `, 'gm'))?.length, 1, later);
  }
  assert.doesNotMatch(terminal.raw, /server_start_failed|likelyCause|warn /);
});

test('the row of a server that starts has the last line that it wrote to standard error', async (t) => {
  const pulls = { command: 'sh', args: ['-c', 'echo "layer 1 of 7" >&2; echo "layer 2 of 7" >&2; exec sleep 600'] };
  const place_ = place(t, { mcpServers: { pulls } });
  const terminal = await open(t, place_);
  await terminal.sees(/^ {4}pulls +starting +\d+ s +layer 2 of 7$/m);
  const { out } = await trunkline(['status', ...place_.data], { cwd: place_.cwd, env: place_.env });
  assert.match(out, /pulls +starting .* layer 2 of 7 /);
});

test('output of another program and input of the user stay, and the rows are whole below them', async (t) => {
  const terminal = await open(t, place(t, { mcpServers: { good: manySided('good'), hang: HANGS } }));
  await terminal.sees(/good +ready[\s\S]*hang +starting +1 s/);
  terminal.otherWrites('a line of another program\r\n');
  await terminal.sees(/hang +starting +3 s/);
  terminal.otherWrites('half a line');
  await terminal.sees(/hang +starting +5 s/);
  terminal.type('typed\r');
  const text = await terminal.sees(/hang +starting +7 s/);
  const lines = text.split('\n').filter((line) => line !== '');
  assert.deepEqual(
    lines.slice(5).map((line) => line.replace(/\d+(\.\d+)? s\b.*/, 'N s')),
    [
      'a line of another program',
      'half a line',
      'typed',
      '    good  ready      10 tools  N s',
      '    hang  starting  N s',
      '  Servers  1 of 2 ready, 10 tools, 1 starting',
    ],
    text,
  );
});

test('a window that gets narrow, low and wide again shows each row once', async (t) => {
  const long = { command: '/no/such/folder/with/a/very/long/name/that/does/not/fit/into/a/narrow/window/command' };
  const terminal = await open(t, place(t, { mcpServers: { good: manySided('good'), hang: HANGS, long } }));
  await terminal.sees(/good +ready/);
  for (const [columns, rows] of [
    [40, 30],
    [40, 8],
    [120, 30],
  ] as const) {
    terminal.resize(columns, rows);
    const text = await terminal.sees(/starting +(\d+) s[\s\S]*Servers/);
    const lines = text.split('\n');
    assert.ok(lines.length <= rows && lines.every((line) => line.length <= columns), text);
    for (const name of ['good', 'hang', 'long'])
      assert.equal(text.match(new RegExp(`^ {4}${name} `, 'gm'))?.length, 1, `${columns} by ${rows}:\n${text}`);
  }
});

test('more servers than lines: those that need attention, a count of the others, and the header stays', async (t) => {
  const good = Object.fromEntries(Array.from({ length: 6 }, (_, i) => [`a${i}`, manySided(`a${i}`)]));
  const lazy = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`b${i}`, { ...HANGS, start: 'lazy' }]));
  const broken = Object.fromEntries(['x', 'y', 'z'].map((name) => [name, { command: '/no/such/command' }]));
  const terminal = await open(t, place(t, { mcpServers: { ...good, ...lazy, ...broken } }), { rows: 24 });
  const text = await terminal.sees(/Servers {2}6 of 49 ready/, false, 60_000);
  assert.match(text, /^trunkline /);
  assert.match(text, /Connect/);
  for (const name of ['x', 'y', 'z']) assert.match(text, new RegExp(`^ {4}${name} +(retry|starting)`, 'm'));
  const [, more] = /… and (\d+) more: /.exec(text) ?? [];
  assert.equal(Number(more) + (text.match(/^ {4}\w+ +(retry|starting|ready|lazy)/gm)?.length ?? 0), 49);
});

test('a reload says what changed; one that is refused shows the frame, here and in status, until it is good', async (t) => {
  const place_ = place(t, { mcpServers: { a: HANGS, b: { ...HANGS, start: 'lazy' } } });
  const terminal = await open(t, place_);
  await terminal.sees(/Servers/);
  place_.write({ mcpServers: { a: { ...HANGS, args: ['601'] }, c: { ...HANGS, start: 'lazy' } } });
  await terminal.sees(/^ {2}reloaded: \+c −b ~a$/m);
  place_.write('{\n  "mcpServers": {\n    "a": { "command": "sleep",, }\n  }\n}\n');
  const frame = /TL\d+ {2}\.mcp\.json:3:\d+ .*\n +3 \| {5}"a": \{ "command": "sleep",, \}\n +\| +\^\n +fix: /;
  const text = await terminal.sees(/Problem {2}the changed file is not in force; trunkline status shows why/);
  assert.match(text, frame);
  assert.match((await trunkline(['status', ...place_.data], { cwd: place_.cwd, env: place_.env })).out, frame);
  place_.write({ mcpServers: { a: { ...HANGS, args: ['601'] }, c: { ...HANGS, start: 'lazy' } } });
  await terminal.sees(/^ {2}reloaded: no change$/m);
  assert.doesNotMatch((await terminal.lines()).join('\n'), /trunkline status shows why/);
  const { out } = await trunkline(['logs', ...place_.data], { cwd: place_.cwd, env: place_.env });
  assert.match(out, /gateway config_applied version=2 added=\["c"\] removed=\["b"\] changed=\["a"\]/);
  assert.match(out, /gateway config_refused code=TL\d+\n {2}TL\d+ .*\n +3 \|/);
});

test('the row of a remote server says what is wrong at its address, and what to do', async (t) => {
  const http = createServer((_request, response) => response.writeHead(404).end());
  await new Promise<void>((done) => http.listen(0, '127.0.0.1', done));
  t.after(() => http.close());
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/api`;
  const terminal = await open(t, place(t, { mcpServers: { far: { url } } }), { columns: 240 });
  await terminal.sees(/far +retry .*404.*; there is nothing at the path \/api; correct .* mostly \/mcp or \/sse$/m);
});

test('--log shows the records on the screen, above the rows', async (t) => {
  const terminal = await open(t, place(t, { mcpServers: { crash: CRASHES } }), { args: ['--log'], rows: 60 });
  const text = await terminal.sees(/warn {2}server_start_failed[\s\S]*crash +(retry|starting)/);
  assert.equal(text.match(/^ {4}crash /gm)?.length, 1, text);
});

test('--log shows the records of `log.level` and above', async (t) => {
  for (const level of ['info', 'error']) {
    const config = { mcpServers: { crash: CRASHES, good: manySided('good') }, log: { level } };
    const options = { args: ['--log'], env: { NO_COLOR: '1' }, columns: 160, rows: 60 };
    const terminal = await open(t, place(t, config), options);
    await terminal.sees(/crash +retry[\s\S]*good +ready/);
    const records = ['process_started', 'server_start_failed'].filter((event) => terminal.raw.includes(event));
    assert.deepEqual(records, level === 'info' ? ['process_started', 'server_start_failed'] : [], level);
  }
});

test('with agents, the command names the variable of the key, and never shows the key', async (t) => {
  const literal = 'k'.repeat(20);
  const agents = { reader: { key: literal, servers: ['s'] }, writer: { key: '${WRITER_KEY}' } };
  const files = place(t, { mcpServers: { s: { ...HANGS, start: 'lazy' } }, agents });
  mkdirSync(join(files.env['HOME']!, '.codex'));
  writeFileSync(join(files.env['HOME']!, '.claude.json'), '{}');
  const secret = 'w'.repeat(24);
  const terminal = await open(t, files, { columns: 140, env: { WRITER_KEY: secret } });
  const text = await terminal.sees(/Servers/);
  assert.match(text, /Link +trunkline link --all --key "\$WRITER_KEY" +\(Claude Code, Codex\)/);
  assert.match(text, /Connect +claude mcp add -t http tl http\S+ --header "Authorization: Bearer \$WRITER_KEY"$/m);
  assert.match(text, /Connect +codex mcp add tl --url http\S+ --bearer-token-env-var WRITER_KEY$/m);
  assert.match(text, /Key +that of agent writer, in \$WRITER_KEY; other agents: reader/);
  assert.ok(!terminal.raw.includes(secret) && !terminal.raw.includes(literal));
  const key = await trunkline(['key', 'reader', ...files.data], {
    cwd: files.cwd,
    env: { ...files.env, WRITER_KEY: secret },
  });
  assert.deepEqual([key.code, key.out], [0, `${literal}\n`]);
});

test('no rows are shown while an input is asked for, at the start and after a change of the file', async (t) => {
  const input = (id: string) => ({ id, type: 'promptString', description: `Token ${id}`, password: true });
  const server = (id: string) => ({ ...HANGS, start: 'lazy', env: { TOKEN: `\${input:${id}}` } });
  const files = place(t, { inputs: [input('one')], servers: { a: server('one') } });
  const terminal = await open(t, files);
  await terminal.sees(/Token one \(one\): $|Token one \(one\):$/);
  terminal.type('secret-of-one\r');
  await terminal.sees(/^ {4}a +lazy[\s\S]*Servers {2}0 of 1 ready/m);
  files.write({ inputs: [input('one'), input('two')], servers: { a: server('one'), b: server('two') } });
  const asked = await terminal.sees(/Token two \(two\):$/);
  assert.doesNotMatch(asked, /Servers/);
  terminal.type('secret-of-two\r');
  const text = await terminal.sees(/reloaded: \+b\n[\s\S]*^ {4}b +lazy[\s\S]*Servers {2}0 of 2 ready/m);
  assert.equal(text.match(/Servers/g)?.length, 1);
  assert.doesNotMatch(terminal.raw, /secret-of/);
});

test('NO_COLOR: no colours; on a dumb terminal, and in the background: lines, and nothing moves', async (t) => {
  const config = { mcpServers: { crash: CRASHES, good: manySided('good') } };
  const plain = await open(t, place(t, config), { env: { NO_COLOR: '1' } });
  await plain.sees(/good +ready[\s\S]*Servers/);
  assert.doesNotMatch(plain.raw, COLOUR);
  const dumb = await open(t, place(t, config), { env: { TERM: 'dumb', NO_COLOR: '1' } });
  await dumb.sees(/crash +retry[\s\S]*Servers {2}1 of 2 ready/);
  assert.ok(!dumb.raw.includes('\x1b'), dumb.raw);
  const background = await open(t, place(t, config), {
    env: { NO_COLOR: '1' },
    script: (line) => `set -m; ${line} & p=$!; read -r; kill $p; wait $p`,
  });
  await background.sees(/crash +retry[\s\S]*Servers {2}1 of 2 ready/);
  assert.ok(!background.raw.includes('\x1b'), background.raw);
  background.type('\r');
  await background.exited;
});

test('Ctrl-Z leaves the terminal to the shell, and the rows come back with fg', async (t) => {
  const terminal = await open(t, place(t, { mcpServers: { good: manySided('good') } }), {
    script: (line) => `set -m; ${line}; echo of the shell; read -r; fg`,
  });
  await terminal.sees(/good +ready/);
  terminal.type('\x1a');
  const text = await terminal.sees(/^of the shell$/m);
  assert.match(text, /good +ready .*\n {2}Servers .*\n(.*\n)*of the shell$/);
  terminal.type('\r');
  await terminal.sees(/of the shell\n[\s\S]*good +ready .*\n {2}Servers .*$/);
});

test('at the end the cursor is below one last line', async (t) => {
  const terminal = await open(t, place(t, { mcpServers: { good: manySided('good') } }));
  await terminal.sees(/good +ready/);
  await terminal.end();
  assert.match((await terminal.lines()).join('\n'), /\n {2}stopped$/);
});

test('Ctrl-D at a question is an empty answer, and Ctrl-C ends the process by SIGINT', async (t) => {
  const inputs = [{ id: 'one', type: 'promptString', description: 'Token one', password: true }];
  const files = place(t, { inputs, servers: { a: { ...HANGS, start: 'lazy', env: { TOKEN: '${input:one}' } } } });
  const script = (line: string): string => `${line}; echo "ended with $?"`;
  const left = await open(t, files, { script });
  await left.sees(/Token one \(one\):$/);
  left.type('\x03');
  const ended = await left.sees(/ended with \d+/);
  assert.match(ended, /ended with 130/);
  assert.doesNotMatch(ended, /error|Abort/);
  const empty = await open(t, files, { script });
  await empty.sees(/Token one \(one\):$/);
  empty.type('\x04');
  const text = await empty.sees(/Servers|ended with/);
  assert.doesNotMatch(text, /internal error|Abort/);
});
