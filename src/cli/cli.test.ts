import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import type { ClientApp } from '../app/clients/clients.ts';
import type { ServerStatus } from '../model/server-state.ts';
import { EXIT } from './exit-code.ts';
import { runProgram } from './program.ts';
import { startHeader } from './screen/start-header.ts';
import { serverLine, serversText } from './server-line.ts';
import { argumentsFromWords, withArguments } from './tools/call.ts';
import { toolSignature } from './tools/tools.ts';

async function run(...argv: string[]) {
  const printed = { out: '', err: '' };
  const exitCode = await runProgram(argv, {
    out: (text) => {
      printed.out += text;
    },
    err: (text) => {
      printed.err += text;
    },
    env: { TRUNKLINE_TOKEN: 'token' },
    cwd: '/',
    version: '1.2.3',
    ask: null,
  });
  return { exitCode, ...printed };
}

function status(fields: Partial<ServerStatus>): ServerStatus {
  return {
    name: 's',
    state: 'running',
    reason: null,
    toolCount: 0,
    startedInMs: null,
    lastAttemptAt: null,
    nextRetryAt: null,
    stderrTail: '',
    ...fields,
  } as ServerStatus;
}

test('--version and --help answer on standard output with exit code 0', async () => {
  assert.deepEqual(await run('--version'), { exitCode: EXIT.ok, out: '1.2.3\n', err: '' });
  const help = await run('--help');
  assert.equal(help.exitCode, EXIT.ok);
  for (const command of ['stdio', 'check', 'status', 'tools', 'call'])
    assert.match(help.out, new RegExp(`^  ${command} `, 'm'));
});

test('wrong usage is exit code 1 with a message on standard error', async () => {
  for (const argv of [['--prot', '1'], ['--port', '70000'], ['--log-level', 'loud'], ['call'], ['--']]) {
    const { exitCode, out, err } = await run(...argv);
    assert.equal(exitCode, EXIT.usage, argv.join(' '));
    assert.equal(out, '');
    assert.notEqual(err, '');
  }
  assert.match((await run('--prot', '1')).err, /Did you mean --port/);
});

test('-h, -v and help do what they do elsewhere; the help of a command shows no option of the gateway', async () => {
  assert.deepEqual(await run('-v'), { exitCode: EXIT.ok, out: '1.2.3\n', err: '' });
  assert.equal((await run('help')).out, (await run('-h')).out);
  for (const command of ['restart', 'check']) {
    const { out, exitCode } = await run('help', command);
    assert.equal(exitCode, EXIT.ok);
    assert.match(out, new RegExp(`Usage: trunkline ${command}`));
    assert.doesNotMatch(out, /--host|--port|--nats|--insecure/);
    assert.equal(out, (await run(command, '-h')).out);
  }
});

test('a word that is no file is an unknown command; the message names the closest or the equivalent one', async () => {
  for (const [argv, words] of [
    [['statsu'], /did you mean "status"/],
    [['restrat', 'fs'], /did you mean "restart"/],
    [['help', 'chekc'], /did you mean "check"/],
    [['list', 'servers'], /trunkline status lists/],
    [['up'], /trunkline start starts/],
    [['zzz'], /--help lists the commands/],
    [['a.json', 'b.json'], /one file is taken/],
  ] as const) {
    const { exitCode, out, err } = await run(...argv);
    assert.deepEqual([exitCode, out], [EXIT.usage, ''], argv.join(' '));
    assert.match(err, words);
  }
  assert.match((await run('./statsu')).err, /there is no such file/);
});

test('an excess argument is refused, and the value of a refused header is not shown', async () => {
  const excess = await run('connections', 'nosuch');
  assert.deepEqual([excess.exitCode, excess.out], [EXIT.usage, '']);
  assert.match(excess.err, /too many arguments for 'connections'.*nosuch/);
  for (const [header, shown] of [
    ['Authorization Bearer sk-1', 'Authorization ***'],
    ['sk-1', '***'],
  ] as const) {
    const { exitCode, err } = await run('add', 'x', 'https://h.example/', '-H', header);
    assert.equal(exitCode, EXIT.usage);
    assert.ok(err.includes(`between them: ${shown};`), err);
  }
});

test('a server is not added with an option or an address without its scheme as its command', async () => {
  for (const [word, shown] of [
    ['--', /-- is no command; begin with the command/],
    ['-y', /-y is no command/],
    ['example.com/mcp', /lacks its scheme; write http/],
  ] as const) {
    const { exitCode, err } = await run('add', 'dashes', '--', word);
    assert.equal(exitCode, EXIT.usage);
    assert.match(err, shown);
  }
});

test('arguments of a call may be one JSON object, or follow the tool name in brackets', () => {
  const given = (tool: string, ...words: string[]) => {
    const { argumentsJson, ...call } = withArguments({ tool, words, argumentsJson: null });
    return [call.tool, argumentsJson ?? argumentsFromWords(call.words, {})];
  };
  assert.deepEqual(given('s.t', '{"a": 1.0}'), ['s.t', '{"a": 1.0}']);
  assert.deepEqual(given('s.t(a: 12345678901234567890, b: "x, y", c: plain, d: [1, {e: f}])'), [
    's.t',
    '{"a":12345678901234567890,"b":"x, y","c":"plain","d":[1,{"e":"f"}]}',
  ]);
  assert.deepEqual(given('s.t()'), ['s.t', '{}']);
  for (const [tool, ...words] of [['s.t(a: [)'], ['s.t(a: 1)', 'b=2'], ['s.t(a: })']] as [string, ...string[]][])
    assert.throws(() => given(tool, ...words), { exitCode: EXIT.usage }, tool);
});

test('an error with --json is one JSON line', async () => {
  for (const argv of [['--'], ['--prot', '1'], ['status', 'a', 'b'], ['call'], ['secret'], ['--port', '70000']]) {
    const { exitCode, out, err } = await run('--json', ...argv);
    assert.deepEqual([exitCode, out, err.indexOf('\n')], [EXIT.usage, '', err.length - 1], argv.join(' '));
    assert.equal(JSON.parse(err).exitCode, EXIT.usage);
  }
  const { error } = JSON.parse((await run('--prot', '1', '--json')).err);
  assert.match(error, /^unknown option '--prot'\n\(Did you mean --port\?\)/);
});

test('tools says which servers are not ready, and ends for a named one without tools as call does', async (t) => {
  const servers = [
    status({ name: 'up', toolCount: 1 }),
    status({ name: 'bare' }),
    status({ name: 'dead', state: 'failed', reason: 'exited 1' }),
    status({ name: 'login', state: 'auth_required', reason: 'sign in: trunkline login login' }),
    status({ name: 'slow', state: 'starting' }),
    status({ name: 'asleep', state: 'unknown' }),
  ];
  const tools = ['up', 'asleep'].map((server) => {
    return { server, name: 'a', exposedName: `${server}__a`, definition: { name: 'a' } };
  });
  const gateway = createServer((request, response) => {
    response.end(JSON.stringify(request.url === '/api/v1/tools' ? { tools, notOffered: [] } : { servers }));
  }).listen(0, '127.0.0.1');
  t.after(() => gateway.close());
  await once(gateway, 'listening');
  const url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  const asked = async (...words: string[]) => {
    const { exitCode, out, err } = await run('tools', '--server', url, ...words);
    const lines = stripVTControlCharacters(err).split('\n').slice(0, -1);
    return { exitCode, out: stripVTControlCharacters(out), lines };
  };
  const notReady = [
    /^not ready: dead +retry +exited 1$/,
    /^not ready: login +login +sign in: trunkline login login$/,
    /^not ready: slow +starting +0 s$/,
  ];
  const all = await asked();
  assert.deepEqual([all.exitCode, all.out], [EXIT.ok, 'up (1 tool)\n\na()\n\nasleep (1 tool)\n\na()\n\n']);
  assert.equal(all.lines.length, 1 + notReady.length, all.lines.join('\n'));
  for (const [at, line] of notReady.entries()) assert.match(all.lines[1 + at]!, line);
  const json = await asked('--json');
  assert.deepEqual([json.exitCode, JSON.parse(json.out).tools.length], [EXIT.ok, 2]);
  assert.equal(json.lines.length, notReady.length);
  for (const [name, code, error] of [
    ['dead', EXIT.unreachable, 'the server dead cannot be called: exited 1'],
    ['login', EXIT.authRequired, 'login requires a login: sign in: trunkline login login'],
  ] as const) {
    const { exitCode, out, lines } = await asked(name);
    assert.deepEqual([exitCode, out, lines.at(-1)], [code, '', `trunkline: ${error}`]);
    const { lines: only } = await asked(name, '--json');
    assert.deepEqual(
      only.map((line) => JSON.parse(line)),
      [{ error, exitCode: code }],
    );
  }
  for (const [name, out, lines] of [
    ['bare', '', 1],
    ['asleep', 'asleep (1 tool)\n\na()\n\n', 1],
    ['slow', '', 2],
  ] as const) {
    const one = await asked(name);
    assert.deepEqual([one.exitCode, one.out, one.lines.length], [EXIT.ok, out, lines], name);
  }
});

test('arguments keep number lexemes, strings stay strings where the schema says so', () => {
  const types = { id: { type: 'integer' }, zip: { type: 'string' }, tags: { type: 'array' } };
  assert.equal(
    argumentsFromWords(['id=12345678901234567890', 'zip=01234', 'tags=["a",1.0]', 'free=text', 'x:={"a":1}'], types),
    '{"id":12345678901234567890,"zip":"01234","tags":["a",1.0],"free":"text","x":{"a":1}}',
  );
  for (const words of [['novalue'], ['a=1', 'a=2'], ['a:=not json']])
    assert.throws(() => argumentsFromWords(words, {}), { exitCode: EXIT.usage });
});

test('a signature shows required parameters first, types, enums and nesting', () => {
  const signature = toolSignature({
    name: 'search',
    description: 'Finds things.\n\nFast.',
    inputSchema: {
      type: 'object',
      properties: {
        limit: { type: 'integer' },
        'odd-name': { enum: ['a', 'b'] },
        query: { type: 'string' },
        where: {
          type: 'object',
          properties: { tags: { type: 'array', items: { type: ['string', 'null'] } } },
          required: ['tags'],
        },
      },
      required: ['query'],
    },
    outputSchema: { type: 'array', items: { type: 'string' } },
  });
  assert.equal(
    signature,
    '// Finds things.\n// Fast.\nsearch(query: string, limit?: number, "odd-name"?: "a" | "b", where?: { tags: (string | null)[] }): string[]',
  );
});

test('the start screen names addresses, states, reasons and how to connect', () => {
  const ready = status({ name: 'memory', toolCount: 9, startedInMs: 212 });
  const broken = status({ name: 'k8s', state: 'failed', reason: 'exited 1: kubectl not found', nextRetryAt: 31_000 });
  const facts = {
    version: '0.1.0',
    program: 'npx trunkline',
    readyMs: 21,
    mcpUrl: 'http://127.0.0.1:4270/mcp',
    controlUrl: 'http://127.0.0.1:4271',
    consoleUrl: 'http://127.0.0.1:4271/#/login/x',
    source: '.mcp.json',
    problems: [],
    warnings: ['w'],
    key: null,
    clients: { linked: [], others: [] },
  };
  const text = stripVTControlCharacters(
    [startHeader(facts), serverLine(ready, 6, 1000), serverLine(broken, 6, 1000), serversText([ready, broken])].join(
      '\n',
    ),
  );
  assert.match(text, /trunkline 0\.1\.0 {2}ready in 21 ms/);
  assert.match(text, /memory {2}ready {7}9 tools {2}0\.21 s/);
  assert.match(text, /k8s {5}retry {5}in 30 s: exited 1: kubectl not found/);
  assert.match(text, /1 of 2 ready, 9 tools/);
  assert.match(text, /claude mcp add -t http tl http:\/\/127\.0\.0\.1:4270\/mcp$/m);
  const key = { agent: 'writer', shell: '$WRITER_KEY', variable: 'WRITER_KEY', others: ['reader'] };
  const withKey = startHeader({ ...facts, key });
  assert.match(withKey, /4270\/mcp --header "Authorization: Bearer \$WRITER_KEY"$/m);
  assert.match(withKey, /Key +that of agent writer, in \$WRITER_KEY; other agents: reader$/m);
  const cursor = { id: 'cursor', title: 'Cursor' } as ClientApp;
  const found = stripVTControlCharacters(startHeader({ ...facts, clients: { linked: [], others: [cursor] } }));
  assert.match(found, /Link +npx trunkline link --all +\(Cursor\)\n +Connect +claude mcp add/);
  const linked = startHeader({ ...facts, clients: { linked: [cursor], others: [] } });
  assert.match(linked, /Linked +Cursor$/m);
  assert.doesNotMatch(linked, /Connect|Link /);
  const from = { ...key, shell: '$(trunkline key writer)', variable: null, others: [] };
  assert.match(startHeader({ ...facts, key: from }), /Bearer \$\(trunkline key writer\)"$/m);
});
