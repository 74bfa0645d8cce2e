import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, type TestContext, test } from 'node:test';
import { until } from '../support/cluster-processes.ts';
import { MANY_SIDED, manySided } from '../support/many-sided.ts';
import { runProgram } from '../support/run-program.ts';
import { type CommandRun, said, startTrunkline, trunkline } from '../support/run-trunkline.ts';
import { WireClient } from '../support/wire-client.ts';

const BIN = resolve(import.meta.dirname, '../../bin/trunkline.js');
const PORTS = ['--port', '0', '--control-port', '0'];

function folderOf(t: TestContext | null, config?: object): string {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-commands-'));
  if (config !== undefined) writeFileSync(join(folder, '.mcp.json'), JSON.stringify(config));
  t?.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function stopped(run: CommandRun, signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
  run.process.kill(signal);
  return run.exited;
}

describe('a gateway from the nearest file, and the commands that talk to it', () => {
  const login = createServer((_req, res) => res.writeHead(401, { 'www-authenticate': 'Bearer' }).end());
  let folder = '';
  let cwd = '';
  let data: string[] = [];
  let gateway: CommandRun;
  before(async () => {
    await new Promise<void>((done) => login.listen(0, '127.0.0.1', done));
    const url = `http://127.0.0.1:${(login.address() as AddressInfo).port}/mcp`;
    const mcpServers = {
      good: manySided('good'),
      dead: { command: '/no/such/command' },
      login: { type: 'http', url },
      later: manySided('later', {}, { start: 'lazy' }),
    };
    folder = folderOf(null, { mcpServers });
    cwd = join(folder, 'a', 'b');
    mkdirSync(cwd, { recursive: true });
    data = ['--data-dir', join(folder, 'data')];
    gateway = startTrunkline([...PORTS, ...data], { cwd });
    await said(gateway, 'Servers');
  });
  after(async () => {
    await stopped(gateway);
    await new Promise((done) => login.close(done));
    rmSync(folder, { recursive: true, force: true });
  });
  const run = (...args: string[]) => trunkline([...args, ...data], { cwd });

  test('the start screen: addresses, the file, a line per server with the remedy, how to connect', () => {
    assert.match(gateway.out, /^trunkline \d+\.\d+\.\d+ {2}ready in \d+ ms\n/);
    assert.match(gateway.out, /MCP +http:\/\/127\.0\.0\.1:\d+\/mcp +\(2024-11-05 to 2026-07-28\)/);
    assert.ok(gateway.out.includes(join(folder, '.mcp.json')));
    assert.match(gateway.out, /good +ready +10 tools +\d+\.\d+ s/);
    assert.match(gateway.out, /dead +retry .*\/no\/such\/command/);
    assert.match(gateway.out, /login +login/);
    assert.match(gateway.out, /later +lazy|later +.*first call/);
    assert.match(gateway.out, /Servers +1 of 4 ready/);
    assert.match(gateway.out, /Connect +claude mcp add -t http tl http:\/\/127\.0\.0\.1:\d+\/mcp/);
  });

  test('without a terminal the log is JSON: no null, no empty list, times as text', () => {
    const records = gateway.err.trim().split('\n');
    const failed = records.find((line) => line.includes('"event":"server_start_failed"'));
    assert.match(String(JSON.parse(failed!).at), /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    for (const line of records) assert.doesNotMatch(line, /":(null|\[\])[,}]/);
  });

  test('a second gateway on the same data folder names its owner and exits 1', async () => {
    const second = await run(...PORTS);
    assert.equal(second.code, 1);
    assert.match(second.err, new RegExp(`pid ${gateway.process.pid}.*serving .*\\.mcp\\.json`));
    assert.match(second.err, /fix:/);
    const { TRUNKLINE_X: _, ...env } = process.env;
    const byEnv = await trunkline([], {
      cwd,
      env: {
        ...env,
        TRUNKLINE_DATA_DIR: data[1],
        TRUNKLINE_PORT: '0',
        TRUNKLINE_CONTROL_PORT: '0',
        TRUNKLINE_JSON: 'true',
      },
    });
    assert.equal(byEnv.code, 1);
    const lines = byEnv.err.trim().split('\n');
    assert.equal(JSON.parse(lines.at(-1)!).exitCode, 1);
    const off = await trunkline(data, { cwd, env: { ...env, TRUNKLINE_JSON: 'false' } });
    assert.deepEqual([off.code, /^trunkline: /m.test(off.err)], [1, true], off.err);
    const wrong = await trunkline(data, { cwd, env: { ...env, TRUNKLINE_INSECURE: 'maybe' } });
    assert.deepEqual([wrong.code, /TRUNKLINE_INSECURE=maybe; set it to 1/.test(wrong.err)], [1, true], wrong.err);
  });

  test('a port in use is reported with its address and exit code 1', async () => {
    const { port } = login.address() as AddressInfo;
    const other = ['--data-dir', join(folder, 'other')];
    for (const flags of [
      ['--port', `${port}`, '--control-port', '0'],
      ['--port', '0', '--control-port', `${port}`],
    ]) {
      const { code, err } = await trunkline([...flags, ...other], { cwd });
      assert.equal(code, 1);
      assert.match(err, new RegExp(`127\\.0\\.0\\.1:${port} is in use`));
    }
  });

  test('status and tools, for people and as JSON', async () => {
    const status = await run('status');
    assert.equal(status.code, 4, 'two servers have a problem');
    assert.match(status.out, /good +ready/);
    assert.match(status.out, /login +login/);
    const unset = { TRUNKLINE_PORT: '', TRUNKLINE_LOG_LEVEL: '', TRUNKLINE_SERVER: '' };
    const same = await trunkline(['status', ...data], { cwd, env: unset });
    assert.deepEqual([same.code, same.err], [4, '']);
    const json = await run('status', '--json');
    assert.deepEqual(
      JSON.parse(json.out).servers.map(({ name }: { name: string }) => name),
      ['dead', 'good', 'later', 'login'],
    );
    const tools = await run('tools', 'good');
    assert.equal(tools.code, 0);
    assert.match(tools.out, /^good \(10 tools\)/);
    assert.match(tools.out, /echo\(/);
    assert.equal(JSON.parse((await run('tools', 'good', '--json')).out).tools.length, 10);
    const all = await run('tools');
    assert.deepEqual([all.code, /^good \(10 tools\)$/m.test(all.out)], [0, true], all.err);
    assert.match(all.err, /^not ready: dead +retry .*\/no\/such\/command/m);
    assert.match(all.err, /^not ready: login +login/m);
    const dead = await run('tools', 'dead');
    assert.deepEqual([dead.code, dead.out], [4, '']);
    assert.match(dead.err, /the server dead cannot be called: .*\/no\/such\/command/);
    const asked = await run('tools', 'login', '--json');
    assert.deepEqual([asked.code, asked.out, JSON.parse(asked.err).exitCode], [3, '', 3]);
    const unknown = await run('tools', 'goof');
    assert.deepEqual([unknown.code, /did you mean "good"/.test(unknown.err)], [1, true]);
  });

  test('tools --as has the names of a client whose file `trunkline link` wrote, or of --name', async () => {
    assert.match((await run('tools', 'good', '--as', 'codex')).out, / mcp__tl__good__echo$/m);
    assert.match((await run('tools', 'good', '--as', 'codex', '--name', 'gw')).out, / mcp__gw__good__echo$/m);
  });

  test('call: text, JSON, and an exit code for each kind of end', async () => {
    const cases: [string[], number, RegExp][] = [
      [['good.echo', 'text=hi'], 0, /^hi\n\(running at http.*\.mcp\.json\)\n$/],
      [['good.echo', '--json', '{"text":"there"}'], 0, /"outcome":"RESULT".*there/],
      [['later.echo', 'text=woken'], 0, /^woken\n\(running at/],
      [['good.fail'], 5, /it failed/],
      [['good.ecko'], 1, /did you mean "good.echo"/],
      [['good.echo', '--json', '[1]'], 1, /JSON object/],
      [['nowhere.echo'], 1, /no server "nowhere"|no tool "nowhere.echo"/],
      [['dead.echo'], 4, /\/no\/such\/command/],
      [['login.echo'], 3, /login|401|authenti|authoriz/i],
    ];
    for (const [args, code, words] of cases) {
      const ended = await run('call', ...args);
      assert.equal(ended.code, code, `${args.join(' ')}: ${ended.out}${ended.err}`);
      assert.match(ended.out + ended.err, words, args.join(' '));
    }
  });

  test('status, tools and call take a file: the running gateway for its own, started servers for another', async () => {
    const other = join(folder, 'other.json');
    writeFileSync(other, JSON.stringify({ mcpServers: { elsewhere: manySided('elsewhere') } }));
    const own = join(folder, '.mcp.json');
    assert.match((await run('status', own)).out, /^\d of 4 servers ready \(running at http/);
    mkdirSync(join(cwd, 'good'));
    const one = await run('status', 'good');
    assert.deepEqual([one.code, /^good +ready/.test(one.out)], [0, true], one.out + one.err);
    assert.match((await run('status', other)).out, /^1 server \(no gateway runs for .*other.json\)/);
    assert.match((await run('tools', 'elsewhere', '--config', other)).out, /^elsewhere \(10 tools\)/);
    assert.match((await run('tools', 'good', '--config', own)).out, /^good \(10 tools\)/);
    const called = await run('call', 'elsewhere.echo', 'text=far', '--config', other);
    assert.deepEqual([called.code, called.out], [0, 'far\n'], called.err);
    const missing = await run('tools', '--config', join(folder, 'none.json'));
    assert.deepEqual([missing.code, /none\.json/.test(missing.err)], [1, true], missing.err);
  });

  test('a failed write to standard output is exit 1, and the gateway keeps a recording that was not written', async () => {
    const into = (output: string, ...args: string[]) => {
      const words = ['sh', '-c', `"$@" ${output}`, 'sh', process.execPath, BIN, ...args, ...data] as const;
      return runProgram(words, { cwd });
    };
    const tools = await into('> /dev/full', 'tools', 'good', '--json');
    assert.equal(tools.code, 1);
    assert.match(tools.err, /^\{"error":"standard output cannot be written: ENOSPC.*\n$/);
    const { err: label } = await run('tools', 'good');
    assert.deepEqual(await into('| true', 'tools', 'good'), { code: 0, out: '', err: label });
    const recording = into('| true', 'record', '--server', 'good', '--max-entries', '1');
    await until(async () => (await run('record', 'list')).out.includes(' waiting '), 'the recording to begin');
    await run('call', 'good.echo', 'text=hi');
    const { err } = await recording;
    const id = /the gateway keeps it: trunkline record get (\S+)/.exec(err)?.[1];
    assert.ok(id !== undefined, err);
    assert.equal((await run('record', 'delete', id)).code, 0);
  });

  test('an unknown flag is exit 1, a file without problems exit 0', async () => {
    assert.equal((await run('--nonsense')).code, 1);
    assert.equal((await run('check')).code, 0);
    assert.equal(JSON.parse((await run('check', '--json')).out).ok, true);
  });
});

test('commands without a running gateway start what they need, and leave nothing behind', async (t) => {
  const cwd = folderOf(t, { mcpServers: { good: manySided('good'), dead: { command: '/no/such/command' } } });
  const data = ['--data-dir', join(cwd, 'data')];
  const called = await trunkline(['call', 'good.echo', 'text=alone', ...data], { cwd });
  assert.deepEqual([called.code, called.out], [0, 'alone\n'], called.err);
  assert.equal((await trunkline(['call', 'good.fail', ...data], { cwd })).code, 5);
  assert.equal((await trunkline(['call', 'dead.x', ...data], { cwd })).code, 4);
  assert.match((await trunkline(['tools', 'good', ...data], { cwd })).out, /good \(10 tools\)/);
  const command = await trunkline(['call', 'x', ...data, '--', process.execPath, MANY_SIDED], { cwd });
  assert.equal(command.code, 1);
});

test('a server that does not answer delays no command for another one, and --timeout ends the wait for it', async (t) => {
  const mute = { command: 'sleep', args: ['1000'] };
  const later = manySided('later', {}, { start: 'lazy' });
  const cwd = folderOf(t, { mcpServers: { good: manySided('good'), later, mute } });
  const data = ['--data-dir', join(cwd, 'data')];
  const timed = async (...args: string[]) => {
    const from = performance.now();
    const ended = await trunkline([...args, ...data], { cwd });
    return { ...ended, ms: performance.now() - from };
  };
  for (const [args, shown] of [
    [['call', 'good.echo', 'text=x', '--timeout', '20s'], /^x\n$/],
    [['call', 'good__echo', 'text=y'], /^y\n$/],
    [['call', 'later.echo', 'text=z'], /^z\n$/],
    [['tools', 'good'], /^good \(10 tools\)/],
    [['tools', 'later'], /^later \(10 tools\)/],
  ] as const) {
    const { code, out, err, ms } = await timed(...args);
    assert.equal(code, 0, err);
    assert.match(out, shown);
    assert.ok(ms < 20_000, `${args.join(' ')} took ${Math.round(ms)} ms`);
  }
  const notSent =
    /NOT_SENT: the time of --timeout was over before mute\.x could be called: mute is starting; allow more, or try/;
  const alone = await timed('call', 'mute.x', '--timeout', '1500ms');
  assert.deepEqual([alone.code, notSent.test(alone.err), alone.ms < 20_000], [4, true, true], alone.err);
  const gateway = startTrunkline([...PORTS, ...data], { cwd });
  t.after(() => stopped(gateway));
  await said(gateway, /good +ready/);
  const beside = await timed('call', 'mute.x', '--timeout', '1500ms');
  assert.deepEqual([beside.code, notSent.test(beside.err), beside.ms < 20_000], [4, true, true], beside.err);
});

/** A server whose texts would control the terminal, and whose schema is invalid. */
const LOUD = `require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  const message = String.fromCharCode(27) + '[2Jloud';
  const properties = { a: { type: message }, b: { enum: 7 }, c: { type: 'object', required: 7 } };
  const tools = [{ name: 'clear', description: message, inputSchema: { type: 'object', properties } }];
  const serverInfo = { name: 'loud', version: '1' };
  const initialize = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo };
  const result = { initialize, 'tools/list': { tools } }[method];
  const error = { code: method === 'tools/call' ? -32000 : -32601, message };
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }));
})`;

test('tools, and the error of a call, escape control characters of a server', async (t) => {
  const cwd = folderOf(t, { mcpServers: { loud: { command: process.execPath, args: ['-e', LOUD] } } });
  const data = ['--data-dir', join(cwd, 'data')];
  const listed = await trunkline(['tools', 'loud', ...data], { cwd });
  assert.ok(
    listed.out.includes('// \\x1b[2Jloud\nclear(a?: \\x1b[2Jloud, b?: unknown, c?: object)'),
    listed.out + listed.err,
  );
  const called = await trunkline(['call', 'loud.clear', ...data], { cwd });
  assert.equal(called.code, 5, called.err);
  assert.ok(called.err.includes('\\x1b[2Jloud') && !`${called.err}${listed.out}`.includes('\x1b'), called.err);
});

test('`trunkline -- command` needs no file; Ctrl-C ends it at once with its child', async (t) => {
  const cwd = folderOf(t);
  const run = startTrunkline([...PORTS, '--data-dir', join(cwd, 'data'), '--', process.execPath, MANY_SIDED], { cwd });
  await said(run, 'Servers');
  const url = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(run.out)![0];
  const client = await WireClient.open(url);
  const { pid } = JSON.parse(await client.callText('who')) as { pid: number };
  const from = performance.now();
  assert.equal(await stopped(run, 'SIGINT'), 0);
  assert.ok(performance.now() - from < 8_000);
  assert.throws(() => process.kill(pid, 0));
});

test('check reports every problem of a file at once, each with its position, and exits 1', async (t) => {
  const cwd = folderOf(t);
  writeFileSync(
    join(cwd, 'trunkline.json'),
    '{\n "mcpServers": {\n  "a": { "command": "x", "env": { "T": "${NOT_SET_ANYWHERE}" } },\n  "b": { "comand": "y" }\n }\n}\n',
  );
  const { code, out, err } = await trunkline(['check'], { cwd });
  assert.equal(code, 1);
  assert.match(out + err, /trunkline\.json:3:\d+.*NOT_SET_ANYWHERE/);
  assert.match(out + err, /trunkline\.json:4:\d+.*comand/);
  assert.match(out + err, /did you mean/);
  assert.equal((await trunkline([...PORTS, '--strict'], { cwd })).code, 1);
});

test('stdio beside a running gateway is a bridge, as the agent of TRUNKLINE_KEY; without a key it is refused', async (t) => {
  const key = 'key-of-ada-0123456789';
  const cwd = folderOf(t, {
    mcpServers: { good: manySided('good'), other: manySided('other') },
    agents: { ada: { key, servers: ['good'] } },
  });
  const data = ['--data-dir', join(cwd, 'data')];
  const gateway = startTrunkline([...PORTS, ...data], { cwd });
  t.after(() => stopped(gateway));
  await said(gateway, 'Servers');
  for (const [env, names] of [
    [{ TRUNKLINE_KEY: key }, ['good']],
    [{}, []],
  ] as const) {
    const bridge = startTrunkline(['stdio', ...data], { cwd, env, input: true });
    const lines = createInterface({ input: bridge.process.stdout! })[Symbol.asyncIterator]();
    const ask = async (id: number, method: string, params: object) => {
      bridge.process.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
      for (;;) {
        const { value, done } = await lines.next();
        if (done === true) return null;
        const message = JSON.parse(value);
        if (message.id === id) return message;
      }
    };
    const clientInfo = { name: 'front', version: '1' };
    const handshake = await ask(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
    if (names.length === 0) assert.equal(handshake?.result, undefined);
    else {
      const list = await ask(2, 'tools/list', {});
      const servers = new Set(list.result.tools.map(({ name }: { name: string }) => name.split('__')[0]));
      assert.deepEqual([...servers], names);
      const answer = await ask(3, 'tools/call', { name: 'good__echo', arguments: { text: 'x' } });
      assert.equal(answer.result.content[0].text, 'x');
    }
    bridge.process.stdin!.end();
    await bridge.exited;
  }
});

test('stdio logs warnings and errors only, also after a reload', async (t) => {
  const good = manySided('good');
  const cwd = folderOf(t, { mcpServers: { good } });
  const front = startTrunkline(['stdio', '--data-dir', join(cwd, 'data')], { cwd, input: true });
  t.after(() => front.process.kill('SIGKILL'));
  const write = (message: object) => front.process.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const clientInfo = { name: 'front', version: '1' };
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
  write({ id: 'init', method: 'initialize', params });
  await said(front, '"serverInfo"');
  for (const name of ['second', 'third']) {
    writeFileSync(join(cwd, '.mcp.json'), JSON.stringify({ mcpServers: { good, [name]: manySided(name) } }));
    let id = 0;
    await until(async () => {
      write({ id: `${name} ${++id}`, method: 'tools/list' });
      await said(front, `"id":"${name} ${id}"`);
      return front.out.includes(`"${name}__echo"`);
    }, `the tools of ${name}`);
  }
  front.process.stdin!.end();
  assert.equal(await front.exited, 0);
  assert.doesNotMatch(front.err, /\binfo\b|config_applied|process_started/);
});
