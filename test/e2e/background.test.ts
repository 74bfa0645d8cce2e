import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { until } from '../support/cluster-processes.ts';
import { freePort } from '../support/free-port.ts';
import { MANY_SIDED, manySided } from '../support/many-sided.ts';
import { said, startTrunkline, trunkline } from '../support/run-trunkline.ts';

/** A folder of a user with a file of one server; its gateway in the background is stopped after the test. */
function project(t: TestContext) {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'trunkline-background-')));
  const options = { cwd: home, env: { HOME: home, XDG_STATE_HOME: join(home, 'state') } };
  writeFileSync(join(home, '.mcp.json'), JSON.stringify({ mcpServers: { good: manySided('good') } }));
  const run = (...args: string[]) => trunkline(args, options);
  t.after(async () => {
    await run('stop', '--now');
    rmSync(home, { recursive: true, force: true });
  });
  const status = async () => JSON.parse((await run('status', '--json')).out);
  const ready = () => until(async () => (await status()).servers[0]?.state === 'running', 'the server');
  return { home, options, run, status, ready };
}

const PORTS = ['--port', '0', '--control-port', '0'];

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test('start --background returns when the gateway listens; stop lets its calls finish and waits for its end', async (t) => {
  const { home, options, run, status, ready } = project(t);
  const started = await run('start', '--background', ...PORTS);
  assert.equal(started.code, 0, started.err);
  const { gateway } = await status();
  assert.ok(
    started.out.startsWith(`started the gateway at ${gateway.mcpUrl}, serving ${join(home, '.mcp.json')}\n`),
    started.out,
  );
  await ready();
  const again = await run('start', '--background');
  assert.deepEqual([again.code, / runs already\n$/.test(again.out)], [0, true], again.out + again.err);
  for (const flag of ['--port', '--control-port']) {
    const elsewhere = await run('start', '--background', flag, '1');
    assert.equal(elsewhere.code, 1, elsewhere.out);
    assert.match(elsewhere.err, /runs already, on \d+ and not 1; stop it first: trunkline stop\n$/);
  }
  const port = new URL(gateway.mcpUrl).port;
  assert.equal((await run('start', '--background', '--port', port)).code, 0);
  const listed = await run('gateways');
  assert.match(listed.out, new RegExp(`^\\* ${gateway.mcpUrl}, serving .*\\n +pid ${gateway.pid}, in the background`));

  const requests = async (): Promise<number> => {
    const { connections } = JSON.parse((await run('status', 'good', '--json')).out);
    return connections.reduce((sum: number, one: { requests: number }) => sum + one.requests, 0);
  };
  const before = await requests();
  const call = startTrunkline(['call', 'good.sleep', 'ms=6000'], options);
  await until(async () => (await requests()) > before, 'the call at its server');
  const stopped = await run('stop');
  assert.equal(stopped.code, 0, stopped.err);
  assert.match(stopped.out, /^stopped the gateway at http/);
  assert.deepEqual([await call.exited, call.out], [0, 'slept\n'], call.err);
  await until(() => !isAlive(gateway.pid), 'the end of the process');
  assert.match((await run('logs')).out, /\bcall\b.*\bsleep\b/, 'a call is a line of the log');
  const none = await run('stop');
  assert.equal(none.code, 4);
  assert.match(none.err, /no gateway runs for .*\.mcp\.json/);
  assert.equal((await run('gateways')).out, 'no gateway runs\n');
});

test('restart starts the gateway again with its arguments, or one server by name, but no gateway in a terminal', async (t) => {
  const { home, options, run, status, ready } = project(t);
  const port = await freePort();
  const words = ['--port', String(port), '--control-port', '0', '--log-level', 'debug'];
  assert.equal((await run('start', '-b', ...words)).code, 0);
  await ready();
  const { gateway } = await status();
  const server = await run('restart', 'good');
  assert.match(server.out, /^restarted good \(the gateway at http/);
  assert.equal((await status()).gateway.pid, gateway.pid);
  const file = join(home, '.mcp.json');
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, '{ "mcpServers": ');
  const broken = await run('restart');
  assert.equal(broken.code, 1, broken.out);
  assert.match(broken.err, / was left as it is: it would not start again\nTL\d+ +\.mcp\.json:1:/);
  assert.equal((await status()).gateway.pid, gateway.pid);
  writeFileSync(file, text);
  const again = await run('restart');
  assert.equal(again.code, 0, again.err);
  assert.ok(again.out.startsWith(`restarted the gateway at http://127.0.0.1:${port}/mcp, serving ${home}`), again.out);
  const next = (await status()).gateway;
  assert.notEqual(next.pid, gateway.pid);
  assert.equal(next.mcpUrl, gateway.mcpUrl);
  assert.equal((await run('stop')).code, 0);

  const inTerminal = startTrunkline(PORTS, options);
  t.after(async () => {
    inTerminal.process.kill();
    await inTerminal.exited;
  });
  await said(inTerminal, 'Servers');
  const refused = await run('restart');
  assert.equal(refused.code, 1);
  assert.match(refused.err, new RegExp(`pid ${inTerminal.process.pid}\\) was not started in the background`));
  assert.equal((await run('stop')).code, 0);
  assert.equal(await inTerminal.exited, 0);
});

test('status shows the warnings of the file, and why a server is off', async (t) => {
  const { home, run, ready } = project(t);
  assert.equal((await run('start', '-b', ...PORTS)).code, 0);
  await ready();
  assert.doesNotMatch((await run('status')).out, /warning/);
  const good = { ...manySided('good'), evn: {} };
  const off = { ...manySided('off'), disabled: true };
  writeFileSync(join(home, '.mcp.json'), JSON.stringify({ mcpServers: { good, off } }));
  const shown = async () => (await run('status')).out;
  await until(async () => /^1 warning of the configuration: trunkline check$/m.test(await shown()), 'the warning');
  await until(async () => /^ +off +off +disabled by its definition\b/m.test(await shown()), 'the disabled server');
  assert.equal((await run('suspend', 'good')).code, 0);
  assert.match(await shown(), /^ +good +off +suspended; trunkline resume good\b/m);
  assert.match((await run('status', 'good')).out, /^good +off +suspended; trunkline resume good$/m);
  const called = await run('call', 'good.echo', 'text=hi');
  assert.deepEqual([called.code, /cannot be called: suspended; trunkline resume good$/m.test(called.err)], [4, true]);
  assert.equal((await run('stop')).code, 0);
  assert.match(await shown(), /^1 warning of the configuration/m);
});

test('a start that fails says why and exits with 1', async (t) => {
  const { home, run } = project(t);
  const stranger = createServer();
  await new Promise<void>((done) => stranger.listen(0, '127.0.0.1', done));
  t.after(() => stranger.close());
  const { port } = stranger.address() as AddressInfo;
  const taken = await run('start', '--background', '--port', String(port), '--control-port', '0');
  assert.equal(taken.code, 1);
  assert.match(taken.err, new RegExp(`the gateway did not start\\n127\\.0\\.0\\.1:${port} is in use`));
  writeFileSync(join(home, '.mcp.json'), '{ "mcpServers": ');
  const broken = await run('start', '--background', ...PORTS);
  assert.equal(broken.code, 1);
  assert.match(broken.err, /the gateway did not start\nTL\d+ +.*\.mcp\.json:1:/);
});

test('stop asks the gateway itself, and does not end another process that has its id', async (t) => {
  const { home, run, status } = project(t);
  assert.equal((await run('start', '-b', ...PORTS)).code, 0);
  const { gateway } = await status();
  const file = join(gateway.dataDir, 'instance.json');
  const { words, ...instance } = JSON.parse(readFileSync(file, 'utf8'));
  assert.ok(words.includes('--port'));
  // An earlier version writes the file without `words`.
  writeFileSync(file, JSON.stringify(instance));
  const earlier = await run('stop');
  assert.deepEqual([earlier.code, /is of an earlier version/.test(earlier.err)], [1, true], earlier.err);
  process.kill(gateway.pid, 'SIGKILL');
  await until(() => !isAlive(gateway.pid), 'the end of the process');
  // This process has the id of the one that was killed.
  writeFileSync(file, JSON.stringify({ ...instance, pid: process.pid }));
  assert.equal((await run('stop')).code, 4);
  assert.equal((await run('status')).code, 4);
  const left = await run('logs');
  assert.equal(left.code, 4, left.err);
  assert.match(left.err, new RegExp(`^\\(no gateway runs for ${home}.*; the last one left this\\)`));
  assert.match(left.out, /server_state unknown → starting/);
  assert.equal((await run('logs', '-n', '1')).out.trimEnd().split('\n').length, 1);
});

test('restart in a shell that lacks a variable of the start command does not end the gateway', async (t) => {
  const { options, run, status } = project(t);
  const passed = { ...options, env: { ...options.env, GREETING_TOKEN: 'hello' } };
  const words = ['start', '-b', ...PORTS, '-e', 'GREETING_TOKEN', '--', process.execPath, MANY_SIDED];
  // Without a file, the gateway is the default gateway.
  rmSync(join(options.cwd, '.mcp.json'));
  const started = await trunkline(words, passed);
  assert.equal(started.code, 0, started.err);
  const { gateway } = await status();
  const refused = await run('restart');
  assert.deepEqual([refused.code, /GREETING_TOKEN is not set here/.test(refused.err)], [1, true], refused.err);
  assert.equal((await status()).gateway.pid, gateway.pid);
  assert.equal((await trunkline(['restart'], passed)).code, 0);
  const called = await run('call', 'many-sided.environment', 'name=GREETING_TOKEN');
  assert.equal(called.out, 'hello\n', called.err);
});

test('commands say that a suspended gateway does not answer, and stop does not wait for it longer than it says', async (t) => {
  const { home, options, run, ready } = project(t);
  const inTerminal = startTrunkline(PORTS, options);
  t.after(async () => {
    inTerminal.process.kill('SIGKILL');
    await inTerminal.exited;
  });
  await said(inTerminal, 'Servers');
  await ready();
  const { pid } = inTerminal.process;
  inTerminal.process.kill('SIGSTOP');
  const asking = startTrunkline(['status'], options);
  const line = `waiting for the gateway (pid ${pid}), which does not answer; `;
  await until(async () => asking.err.includes(line), 'the line about the gateway');
  inTerminal.process.kill('SIGCONT');
  assert.equal(await asking.exited, 0, asking.err);
  assert.ok(asking.out.includes(join(home, '.mcp.json')), asking.out);
  inTerminal.process.kill('SIGSTOP');
  const begun = performance.now();
  const stopped = await run('stop', '--json');
  assert.equal(stopped.code, 4, stopped.out);
  assert.match(JSON.parse(stopped.err).error, /did not answer within 10 s; it has not ended, but may when it goes on/);
  assert.ok(performance.now() - begun < 60_000);
  inTerminal.process.kill('SIGKILL');
  await inTerminal.exited;
});
