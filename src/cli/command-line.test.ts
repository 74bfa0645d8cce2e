import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Command } from 'commander';
import { commandLine } from './command-line.ts';
import { EXIT } from './exit-code.ts';
import { runProgram } from './program.ts';

async function run(...argv: string[]) {
  let err = '';
  const exitCode = await runProgram(argv, {
    out: () => {},
    err: (text) => {
      err += text;
    },
    env: { TRUNKLINE_TOKEN: 'token' },
    cwd: '/',
    version: '1.2.3',
    ask: null,
  });
  return { exitCode, err };
}

test('the words of a filter may begin with "-", and reach the gateway in their order', async (t) => {
  const asked: string[] = [];
  const gateway = createServer((request, response) => {
    const { searchParams } = new URL(request.url!, 'http://localhost');
    asked.push(`${searchParams.get('limit')} ${searchParams.get('filter')}`);
    response.end('{"calls":[]}');
  }).listen(0, '127.0.0.1');
  t.after(() => gateway.close());
  await once(gateway, 'listening');
  const server = ['--server', `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`];
  for (const [words, expected] of [
    [['ms>500', '-client:codex'], '20 ms>500 -client:codex'],
    [['-client:codex', 'ms>500'], '20 -client:codex ms>500'],
    [['-ms>500', '-waited<=3', '-tries=1', '-error:-32602'], '20 -ms>500 -waited<=3 -tries=1 -error:-32602'],
    // These begin like -n, -f and --server.
    [['-node:a', '-name:n5', '-fetch', '-server:x'], '20 -node:a -name:n5 -fetch -server:x'],
    [['a', '-n', '5', '-timeout', '-n6', 'b'], '6 a -timeout b'],
    [['-reason:"connection', 'refused"', '-"two', 'words"'], '20 -reason:"connection refused" -"two words"'],
    [['-n', '7', '--', 'ms>1', '-client:codex', '-json', '--', '-n', '1'], '7 ms>1 -client:codex -json -- -n 1'],
    [['--'], '20 '],
  ] as const) {
    const { exitCode, err } = await run('calls', ...server, ...words);
    assert.deepEqual([exitCode, asked.pop()], [EXIT.ok, expected], `${words.join(' ')}\n${err}`);
  }
});

test('--server and its files may precede the name of a command that asks a remote gateway', async (t) => {
  const asked: string[] = [];
  const gateway = createServer((request, response) => {
    asked.push(request.url!);
    response.end('{"calls":[],"nodes":[],"conflicts":[]}');
  }).listen(0, '127.0.0.1');
  t.after(() => gateway.close());
  await once(gateway, 'listening');
  const url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  for (const [words, expected] of [
    [['--server', url, 'nodes'], '/api/v1/nodes'],
    [[`--server=${url}`, '--json', 'nodes', '--json'], '/api/v1/nodes'],
    [
      ['--data-dir', 'calls', '--server', url, 'calls', '-client:codex'],
      '/api/v1/calls?filter=-client%3Acodex&limit=20',
    ],
    [['--server', url, 'calls', '--', '--server'], '/api/v1/calls?filter=--server&limit=20'],
  ] as const) {
    const { exitCode, err } = await run(...words);
    assert.deepEqual([exitCode, asked.pop()], [EXIT.ok, expected], `${words.join(' ')}\n${err}`);
  }
  const { exitCode, err } = await run('--server', url, '--token-file', '/nowhere', 'nodes');
  assert.equal(exitCode, EXIT.usage);
  assert.match(err, /--token-file \/nowhere cannot be read/);
  for (const words of [['stop'], ['record'], ['trunkline.json'], ['--', 'npx'], []]) {
    const { exitCode, err } = await run('--server', url, ...words);
    assert.equal(exitCode, EXIT.usage, words.join(' '));
    assert.match(err, /unknown option '--server'/);
  }
  assert.deepEqual(asked, []);
});

test('a mistyped option of a command with a filter is an error that names it', async () => {
  for (const [words, message] of [
    [['-json'], /unknown option '-json'\n\(Did you mean --json\? .*trunkline calls -- -json\)/],
    [['-folow'], /unknown option '-folow'\n\(Did you mean --follow\?/],
    [['-config=a.json'], /unknown option '-config=a\.json'\n\(Did you mean --config\?/],
    [['--folow', '-client:codex'], /unknown option '--folow'\n\(Did you mean --follow\?/],
    [['--client:codex'], /unknown option '--client:codex'/],
    [['-x'], /unknown option '-x'/],
    [['-n', 'many'], /The number of lines is a whole number/],
    [['-n5x'], /The number of lines is a whole number/],
    [['-fn'], /'-n, --lines <number>' argument missing/],
  ] as const) {
    const { exitCode, err } = await run('calls', ...words);
    assert.equal(exitCode, EXIT.usage, words.join(' '));
    assert.match(err, message);
  }
});

test('a command that starts no server takes the words after "--" as plain arguments', async () => {
  for (const [words, message] of [
    [['top', '--', 'x'], /too many arguments for 'top'/],
    [['trace', '--', 'x', '-y'], /too many arguments for 'trace'.*: x, -y/],
    [['secret', 'set', '--'], /missing required argument 'name'/],
    [['help', '--', '-zzz'], /there is no command "-zzz"/],
    // These commands take the command line of a server after "--".
    [['--data-dir', 'calls', '--'], /nothing follows "--"/],
    [['check', '--'], /nothing follows "--"/],
  ] as const) {
    const { exitCode, err } = await run(...words);
    assert.equal(exitCode, EXIT.usage, words.join(' '));
    assert.match(err, message);
  }
});

test('-V is --version; --json of call takes only JSON that follows it; an option of add takes several values', async () => {
  assert.deepEqual(await run('-V'), { exitCode: EXIT.ok, err: '' });
  const program = new Command('trunkline');
  program.command('call <tool> [words...]').option('--json [arguments]');
  program.command('add <name> [words...]').option('-e, --env <value>').option('-H, --header <value>');
  for (const [given, words, serverCommand] of [
    ['call --json a.b x=1', 'call a.b x=1 --json', ''],
    ['call a.b --json x=1 -- node s.js', 'call a.b x=1 --json', 'node s.js'],
    ['call a.b --json {"x":1}', 'call a.b --json {"x":1}', ''],
    ['call a.b x=1 --json', 'call a.b x=1 --json', ''],
    ['add gh -e A=1 B=2 -- npx B=3', 'add gh -e A=1 -e B=2', 'npx B=3'],
    ['add x npx -y pkg -e A=1 B=2', 'add x', 'npx -y pkg -e A=1 B=2'],
    ['add gh -e A=1 B=2 npx -y some-server', 'add gh -e A=1 -e B=2', 'npx -y some-server'],
  ] as const) {
    const line = commandLine(given.split(' '), program);
    assert.deepEqual([line.words.join(' '), line.serverCommand.join(' ')], [words, serverCommand]);
  }
  const headers = commandLine(['add', 'x', '-H', 'A: 1', 'B: 2', 'http://h/'], program);
  assert.deepEqual(headers.words, ['add', 'x', '-H', 'A: 1', '-H', 'B: 2', 'http://h/']);
});

test('--data-dir overrides its variable, before the name of the command and after it', async (t) => {
  process.env['TRUNKLINE_DATA_DIR'] = '/of-environment';
  t.after(() => {
    delete process.env['TRUNKLINE_DATA_DIR'];
  });
  assert.match((await run('top')).err, /no gateway runs for \/of-environment;/);
  process.env['TRUNKLINE_DATA_DIR'] = '~/of-systemd';
  for (const [words, folder] of [
    [[], join(homedir(), 'of-systemd')],
    [['--data-dir=~/of-bash'], join(homedir(), 'of-bash')],
    [['--data-dir', '~other/x'], '~other/x'],
  ] as const) {
    const { err } = await run('top', ...words);
    assert.ok(err.includes(`no gateway runs for ${folder};`), err);
  }
  const given = ['--data-dir', '/given'];
  for (const words of [
    [...given, 'top'],
    ['top', ...given],
    ['drift', ...given, 'history', 'x'],
    [...given, 'record', 'list'],
    [...given, 'access', 'why', 'a', 'b', 'c'],
    ['sessions', ...given, 'end', 'x'],
    ['--data-dir', '/other', 'tasks', ...given, 'cancel', 'x'],
  ]) {
    const { exitCode, err } = await run(...words);
    assert.equal(exitCode, EXIT.unreachable, words.join(' '));
    assert.match(err, /no gateway runs for \/given;/, words.join(' '));
  }
});
