import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { MANY_SIDED, manySided } from '../support/many-sided.ts';
import { said, startTrunkline, trunkline } from '../support/run-trunkline.ts';

const PORTS = ['--port', '0', '--control-port', '0'];

/** A folder with a file of one server, and how commands are run in it. */
function place(t: TestContext, config: object | null = { mcpServers: { base: manySided('base') } }) {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-servers-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  if (config !== null) writeFileSync(join(folder, 'trunkline.json'), JSON.stringify(config));
  const data = ['--data-dir', join(folder, 'data')];
  const run = (...args: string[]) => {
    const cut = args.indexOf('--');
    const all = cut < 0 ? [...args, ...data] : [...args.slice(0, cut), ...data, ...args.slice(cut)];
    return trunkline(all, { cwd: folder, env: { EXTRA: 'from the environment' } });
  };
  const start = async () => {
    const gateway = startTrunkline([...PORTS, ...data], { cwd: folder, env: { EXTRA: 'from the environment' } });
    t.after(async () => {
      gateway.process.kill();
      await gateway.exited;
    });
    await said(gateway, 'Servers');
    return gateway;
  };
  return { folder, run, start };
}

const SERVER = ['--', process.execPath, MANY_SIDED];

test('check:J6 add, suspend, resume, restart and remove on a running gateway, as text and as JSON', async (t) => {
  const { run, start } = place(t);
  await start();
  const added = await run(
    'add',
    'extra',
    '-e',
    'NAME=extra',
    '-e',
    'FROM=${EXTRA}',
    '--description',
    'more',
    ...SERVER,
  );
  assert.equal(added.code, 0, added.err);
  assert.match(added.out, /^added extra \(the gateway at http:.*\)\n +extra +ready +10 tools/);
  const called = await run('call', 'extra.echo', 'text=hello');
  assert.equal(called.code, 0, called.err);
  assert.match(called.out, /hello/);

  const again = await run('add', 'extra', ...SERVER);
  assert.equal(again.code, 1);
  assert.match(again.err, /exists already/);
  const brief = await run('add', 'extra', '--replace', '--ttl', '1h', ...SERVER);
  assert.deepEqual([brief.code, /leave out --ttl/.test(brief.err)], [1, true], brief.err);
  const replaced = await run('add', 'extra', '--replace', '--json', '-e', 'NAME=other', ...SERVER);
  assert.equal(replaced.code, 0, replaced.err);
  const reported = JSON.parse(replaced.out);
  assert.deepEqual(
    [reported.done, reported.running, reported.server.name, reported.server.state],
    ['added', true, 'extra', 'running'],
  );

  for (const [change, state] of [
    ['suspend', 'suspended'],
    ['resume', null],
    ['restart', 'running'],
  ] as const) {
    const done = await run(change, 'extra', '--json');
    assert.equal(done.code, 0, `${change}: ${done.err}`);
    const { server } = JSON.parse(done.out);
    assert.equal(server.desired.suspended, change === 'suspend');
    if (state === 'running') assert.equal(server.state, state);
  }
  const removed = await run('remove', 'extra');
  assert.deepEqual([removed.code, /^removed extra/.test(removed.out)], [0, true]);
  const gone = await run('remove', 'extra');
  assert.equal(gone.code, 1);
  assert.match(gone.err, /no server "extra"/);
  const ofFile = await run('remove', 'base');
  assert.equal(ofFile.code, 1);
  assert.match(ofFile.err, /trunkline\.json:1/);
});

test('a mistake in the arguments is reported with its fix, and nothing is added', async (t) => {
  const { run, start } = place(t);
  await start();
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['add', 'x', 'ftp://example.com/'], /TL1408.*\n +fix: /],
    [['add', 'a b', 'http://127.0.0.1:9/'], /TL1402/],
    [['add', 'x', 'http://127.0.0.1:9/', '-H', 'nonsense'], /-H takes a name and a value/],
    [['add', 'x', '-e', 'A=${NOT_SET_ANYWHERE}', ...SERVER], /TL1203/],
    [['add'], /name a url, or a command/],
    [
      ['add', 'http://127.0.0.1:9/'],
      /name of the server is missing.*: trunkline add <name> http:\/\/127\.0\.0\.1:9\/$/m,
    ],
    [['add', 'x'], /name a url, or a command/],
    [['add', 'x', 'http://127.0.0.1:9/', '--ttl', 'soon'], /A time is written as 90s/],
    [['add', 'x', '-s', 'project', 'http://127.0.0.1:9/'], /does not write configuration files/],
    [['add', 'x', '--session', 'none', 'http://127.0.0.1:9/'], /no open session/],
  ];
  for (const [args, words] of cases) {
    const done = await run(...args);
    assert.equal(done.code, 1, args.join(' '));
    assert.match(done.err, words, args.join(' '));
  }
  const status = JSON.parse((await run('status', '--json')).out);
  assert.deepEqual(
    status.servers.map(({ name }: { name: string }) => name),
    ['base'],
  );
});

test('a temporary server is added with its expiry time', async (t) => {
  const { run, start } = place(t);
  await start();
  const added = await run('add', 'brief', '--ttl', '2h', '--json', ...SERVER);
  const { server } = JSON.parse(added.out);
  assert.equal(server.desired.source, 'temporary');
  assert.ok(Date.parse(server.desired.expiresAt) > Date.now() + 3_600_000);
});

test('without a gateway the commands change the state for the next one; restart reports that none runs', async (t) => {
  const { folder, run, start } = place(t);
  const added = await run('add', 'extra', '-e', 'NAME=extra', ...SERVER);
  assert.equal(added.code, 0, added.err);
  assert.match(added.out, /^added extra \(no gateway runs/);
  // Without "--", all words after the command are its arguments.
  const words = [
    'add',
    '--no-wait',
    '--data-dir',
    join(folder, 'data'),
    'uncut',
    'npx',
    '-y',
    'some-server',
    '--port',
    '1',
  ];
  const uncut = await trunkline(words, { cwd: folder });
  assert.match(uncut.out, /^ {4}runs {2}npx -y some-server --port 1$/m, uncut.err);
  assert.equal((await run('remove', 'uncut')).code, 0);
  // Without a name the server is named after its package or its host.
  const nameless = await trunkline([...words.slice(0, 4), ...words.slice(5, 8)], { cwd: folder });
  assert.match(nameless.out, /^added some .*\n {4}runs {2}npx -y some-server$/m, nameless.err);
  assert.equal((await run('remove', 'some')).code, 0);
  const host = await run('add', 'https://mcp.linear.app/mcp');
  assert.match(host.out, /^added linear /, host.err);
  assert.equal((await run('remove', 'linear')).code, 0);
  const asTasks = await run('add', 'https://mcp.linear.app/mcp', '--as', 'tasks', '-H', 'X-Team: a');
  assert.match(asTasks.out, /^added tasks /, asTasks.err);
  assert.equal((await run('remove', 'tasks')).code, 0);
  assert.equal((await run('add', 'base', ...SERVER)).code, 1);
  assert.equal((await run('add', 'bad', 'ftp://x/')).code, 1);
  assert.equal((await run('add', 'gone', ...SERVER)).code, 0);
  assert.equal((await run('remove', 'gone')).code, 0);
  assert.equal((await run('suspend', 'base', '--json')).code, 0);
  const restarted = await run('restart', 'base');
  assert.equal(restarted.code, 4);
  assert.match(restarted.err, /no gateway runs for .*, so there is nothing to restart/);
  for (const command of ['nodes', 'logs', 'drift']) {
    const asked = await run(command);
    assert.equal(asked.code, 4, command);
    assert.match(asked.err, /no gateway runs for .*; start it with: trunkline/, command);
  }
  assert.equal((await run('add', 'brief', '--ttl', '5m', ...SERVER)).code, 4);
  await start();
  const { servers } = JSON.parse((await run('status', '--json')).out);
  const states = servers.map(({ name, state }: { name: string; state: string }) => [name, state]);
  assert.deepEqual(states, [
    ['base', 'suspended'],
    ['extra', 'running'],
  ]);
});

test('a server added without a gateway is there for a client that spawns one for itself', async (t) => {
  const { run, folder } = place(t);
  assert.equal((await run('add', 'extra', '-e', 'NAME=extra', ...SERVER)).code, 0);
  assert.equal((await run('suspend', 'base')).code, 0);
  const spawned = startTrunkline(['stdio', '--data-dir', join(folder, 'data')], { cwd: folder, input: true });
  t.after(async () => {
    spawned.process.kill();
    await spawned.exited;
  });
  const say = (message: object) => spawned.process.stdin!.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const clientInfo = { name: 'test', version: '1' };
  say({ id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo } });
  await said(spawned, '"id":1');
  say({ method: 'notifications/initialized' });
  for (let id = 2; !spawned.out.includes('extra__echo'); id++) {
    say({ id, method: 'tools/list', params: {} });
    await said(spawned, `"id":${id}`);
  }
  assert.ok(!spawned.out.includes('base__echo'));
});

test('added servers are enough to start with: no file is needed', async (t) => {
  const { run, start, folder } = place(t, null);
  const without = await trunkline([...PORTS, '--data-dir', join(folder, 'data')], { cwd: folder });
  assert.equal(without.code, 1);
  assert.match(without.err, /no configuration file/);
  assert.equal((await run('add', 'only', ...SERVER)).code, 0);
  const gateway = await start();
  assert.match(gateway.out, /only +ready/);
});

test('-e passes a variable to the command of the start line; withheld variables are named, without values', async (t) => {
  const { folder, run } = place(t, null);
  const data = ['--data-dir', join(folder, 'data')];
  const env = { GREETING_TOKEN: 'hello', OTHER_SECRET: 'hidden' };
  const words = [...PORTS, ...data, '-e', 'GREETING_TOKEN', '--env', 'MORE=a=b', ...SERVER];
  const gateway = startTrunkline(words, { cwd: folder, env });
  t.after(async () => {
    gateway.process.kill();
    await gateway.exited;
  });
  await said(gateway, 'Servers');
  assert.match(gateway.out, /Not passed to the server: .*OTHER_SECRET.*trunkline -e \w+ --/);
  assert.doesNotMatch(gateway.out, /server: .*GREETING_TOKEN|hidden/);
  const of = async (server: string, name: string) => (await run('call', `${server}.environment`, `name=${name}`)).out;
  assert.equal(await of('many-sided', 'GREETING_TOKEN'), 'hello\n');
  assert.equal(await of('many-sided', 'MORE'), 'a=b\n');
  assert.equal(await of('many-sided', 'OTHER_SECRET'), '\n');
  // NAME alone is a reference here: the gateway reads it where the server starts.
  assert.equal((await run('add', 'extra', '-e', 'OTHER_SECRET', ...SERVER)).code, 0);
  assert.equal(await of('extra', 'OTHER_SECRET'), 'hidden\n');

  const other = ['--data-dir', join(folder, 'other')];
  for (const [args, says] of [
    [['-e', 'NOT_SET_ANYWHERE', ...SERVER], /NOT_SET_ANYWHERE is not set here/],
    [['-e', 'GREETING_TOKEN'], /-e is for the command behind "--"/],
    [['-e', 'sk-123 456', ...SERVER], /-e takes NAME or NAME=value\n$/],
  ] as const) {
    const { code, err } = await trunkline([...PORTS, ...other, ...args], { cwd: folder, env });
    assert.deepEqual([code, says.test(err)], [1, true], err);
  }
});

test('a line of gateway.log that was cut is shown as it is', async (t) => {
  const { folder, run } = place(t);
  mkdirSync(join(folder, 'data'), { mode: 0o700 });
  const whole = '{"time":"2026-01-02T03:04:05.678Z","level":"info","event":"drained"}';
  const cut = '{"time":"2026-01-02T03:04:06.000Z","lev';
  writeFileSync(join(folder, 'data', 'gateway.log'), `${cut}\u001b[31m\n${whole}\n`);
  const { code, out, err } = await run('logs');
  assert.equal(code, 4, err);
  const [first, second] = out.split('\n');
  assert.ok(first?.startsWith(cut) && !first.includes('\u001b'), out);
  assert.match(second!, /03:04:05\.678 .*drained/);
  assert.match((await run('logs', '--json')).out, /"lev/);
});
