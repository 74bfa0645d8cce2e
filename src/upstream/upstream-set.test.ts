import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../test/support/fake-clock.ts';
import {
  ScriptedServer,
  SILENCE,
  scriptedTool,
  statefulScript,
  statefulServer,
} from '../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  serverOf,
  toolCall,
  UpstreamBench,
} from '../../test/support/upstream-bench.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { notification } from '../protocol/compose.ts';

const client = clientOf('s');

test('S2.26 check:A3 a server that cannot start stays visible with its reason and can be tried again', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.openFails = new GatewayError('NOT_SENT', 'spawn nothing ENOENT');
  await bench.run([serverOf('a', { start: 'eager' }), script]);
  const status = bench.set.status('a')!;
  assert.deepEqual([status.state, status.health, status.initialized], ['failed', 'unhealthy', false]);
  assert.match(status.reason!, /ENOENT/);
  script.openFails = null;
  const restarted = bench.set.restart('a');
  await settled();
  await bench.clock.advance(200);
  await restarted;
  assert.equal(bench.set.status('a')?.state, 'running');
});

test('check:A9 S2.5 status is a snapshot: state, tools sorted, era, revision, connections', async () => {
  const bench = new UpstreamBench();
  await bench.run([serverOf('a'), new ScriptedServer(statefulServer([scriptedTool('zeta'), scriptedTool('alpha')]))]);
  const before = bench.set.status('a')!;
  assert.deepEqual([before.state, before.reason, before.toolCount], ['unknown', 'starts on first use', 0]);
  answerText(await bench.call('a', toolCall(client)));
  await settled();
  const status = bench.set.status('a')!;
  assert.deepEqual(status.tools, ['alpha', 'zeta']);
  assert.deepEqual(
    [status.state, status.health, status.era, status.revision],
    ['running', 'healthy', 'stateful', '2025-11-25'],
  );
  assert.deepEqual([status.connections[0]!.state, status.connections[0]!.requests], ['idle', 1]);
  assert.equal(before.toolCount, 0);
});

test('check:A11 eager servers start four at a time, lazy ones on first use', async () => {
  const bench = new UpstreamBench();
  const scripts = Array.from(
    { length: 6 },
    () => new ScriptedServer({ ...statefulServer(), initialize: () => SILENCE }),
  );
  const lazy = statefulScript();
  await bench.run(...scripts.map((script, i) => [serverOf(`e${i}`, { start: 'eager' }), script] as const), [
    serverOf('lazy'),
    lazy,
  ]);
  const begun = () => scripts.filter((script) => script.links.length > 0).length;
  assert.equal(begun(), 4);
  const { last } = scripts[0]!;
  last.respond(last.lastOf('initialize').id as number, statefulServer()['initialize']!({}, last, 0));
  await settled();
  assert.equal(begun(), 5);
  assert.equal(lazy.links.length, 0);
  answerText(await bench.call('lazy', toolCall(client)));
});

test('fault:F37 an unchanged server keeps its process, its sessions and its calls through a change', async () => {
  const bench = new UpstreamBench();
  const same = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
  const moved = statefulScript();
  const added = statefulScript();
  const a = serverOf('a');
  await bench.run([a, same], [serverOf('b'), moved]);
  answerText(await bench.call('b', toolCall(client)));
  const inFlight = bench.call('a', toolCall(client));
  await settled();
  bench.scripts.set('c', added);
  const b = serverOf('b', { connectionDigest: 'new digest', start: 'eager' });
  await bench.set.apply(new Map([a, b, serverOf('c', { start: 'eager' })].map((server) => [server.name, server])));
  assert.deepEqual(
    bench.set.servers().map(({ name }) => name),
    ['a', 'b', 'c'],
  );
  assert.equal(same.links.length, 1);
  same.last.respond(same.last.lastOf('tools/call').id as number, {});
  answerText(await inFlight);
  assert.equal(moved.links.length, 2);
  assert.equal(moved.links[0]!.state, 'closed');
  assert.equal(bench.set.status('c')?.state, 'running');
  assert.deepEqual(bench.events.lost, ['s']);
});

test('a replaced server is up before the old one ends, and calls in flight on the old one finish', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const run = script.handlers['tools/call']!;
  script.handlers['tools/call'] = (params, link, id) => (link.number === 1 ? SILENCE : run(params, link, id));
  await bench.run([serverOf('a', { start: 'eager' }), script]);
  const inFlight = bench.call('a', toolCall(client));
  await settled();
  const replaced = bench.set.apply(new Map([['a', serverOf('a', { start: 'eager', connectionDigest: 'new' })]]));
  await settled();
  const [old] = script.links;
  assert.equal(script.live.length, 2);
  answerText(await bench.call('a', toolCall(client)));
  old!.respond(old!.lastOf('tools/call').id as number, { from: 'the old' });
  assert.match(answerText(await inFlight), /the old/);
  await replaced;
  assert.equal(old!.state, 'closed');
});

test('S2.27 a removed server is closed: calls that do not finish in time are UNKNOWN', async () => {
  const bench = new UpstreamBench({ times: { drainMs: 1000 } });
  const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
  await bench.run([serverOf('a'), script]);
  const inFlight = bench.call('a', toolCall(client));
  await settled();
  const applied = bench.set.apply(new Map());
  assert.equal(bench.set.status('a'), null);
  assert.equal(failureOf(await bench.call('a', toolCall(client))).outcome, 'NOT_SENT');
  await bench.clock.advance(1000);
  await applied;
  assert.equal(failureOf(await inFlight).outcome, 'UNKNOWN');
  assert.equal(script.last.closedWith, 'remove');
  assert.equal(script.live.length, 0);
  assert.deepEqual(bench.events.causes, ['removed'], 'no restart is reported');
});

test('fault:F31 the gateway logs a server’s change that fails, leaves other servers alone, and finishes when the removed server has ended', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
  await bench.run([serverOf('a'), script]);
  const inFlight = bench.call('a', toolCall(client));
  await settled();
  bench.stores.knownCatalogs.forget = () => {
    throw new Error('the disk is full');
  };
  let over = false;
  bench.scripts.set('b', statefulScript());
  const applied = bench.set.apply(new Map([['b', serverOf('b')]])).then(() => {
    over = true;
  });
  await settled();
  assert.deepEqual([over, script.live.length], [false, 1]);
  script.last.respond(script.last.lastOf('tools/call').id as number, { content: 'the last' });
  assert.match(answerText(await inFlight), /the last/);
  await applied;
  assert.equal(script.live.length, 0);
  assert.match(bench.logged.join(''), /"server_defect".*"server":"a".*the disk is full/);
  answerText(await bench.call('b', toolCall(client)));
});

test('fault:F31 a removed server that another node took over ends at once, with the calls that still ran', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
  await bench.run([serverOf('a'), script], [serverOf('b'), statefulScript()]);
  answerText(await bench.call('b', toolCall(client)));
  const inFlight = bench.call('a', toolCall(client));
  await settled();
  const applied = bench.set.apply(new Map([['b', serverOf('b')]]));
  await settled();
  assert.equal(script.live.length, 1, 'it may finish');
  bench.set.surrender('a', null);
  assert.equal(failureOf(await inFlight).outcome, 'UNKNOWN');
  assert.equal(script.last.closings.at(-1), 'interrupt');
  await applied;
  assert.equal(script.live.length, 0);
  assert.equal(bench.scripts.get('b')!.live.length, 1);
});

test('fault:F31 a session that another node took over has no process here, not even of an earlier definition', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
  await bench.run([serverOf('a', { start: 'eager' }), script]);
  const other = clientOf('other');
  const calls = [client, other].map((its) => bench.call('a', toolCall(its)));
  await settled();
  const replaced = bench.set.apply(new Map([['a', serverOf('a', { start: 'eager', connectionDigest: 'new' })]]));
  await settled();
  calls.push(bench.call('a', toolCall(client)));
  await settled();
  const before = script.live.length;
  bench.set.surrender('a', client);
  for (const call of [calls[0]!, calls[2]!]) assert.equal(failureOf(await call).outcome, 'UNKNOWN');
  await settled();
  assert.equal(script.live.length, before - 2);
  const ended = script.links.filter(({ closings }) => closings.includes('interrupt'));
  assert.equal(ended.length, 2);
  const kept = script.live.find((link) => link.count('tools/call') === 1)!;
  kept.respond(kept.lastOf('tools/call').id as number, { content: 'late' });
  assert.match(answerText(await calls[1]!), /late/);
  await replaced;
});

test('fault:F31 a server that is ending anyway ends at once when another node took it over', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(client)));
  const link = script.live.find((one) => one.count('tools/call') > 0)!;
  const { promise: gone, resolve: go } = Promise.withResolvers<void>();
  const close = link.close.bind(link);
  link.close = async (how) => {
    await close(how);
    if (how !== 'interrupt') await gone;
  };
  bench.set.releaseSession('s');
  await settled();
  assert.deepEqual(link.closings, ['remove']);
  bench.set.surrender('a', clientOf('other'));
  assert.deepEqual(link.closings, ['remove']);
  bench.set.surrender('a', client);
  assert.deepEqual(link.closings, ['remove', 'interrupt']);
  go();
});

test('S3.13 check:A7 settings that need no new connection take effect on the running one', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
  await bench.run([serverOf('a'), script]);
  await bench.set.catalog('a', client, 1000);
  await bench.set.apply(new Map([['a', serverOf('a', { timeoutMs: 100 })]]));
  const outcome = bench.call('a', toolCall(client));
  await settled();
  await bench.clock.advance(100);
  assert.equal(failureOf(await outcome).code, 'TIMEOUT');
  assert.equal(script.links.length, 1);
});

test('S3.12 check:A7 a lazy server that becomes eager is started, but not if it was stopped', async () => {
  const bench = new UpstreamBench();
  const names = ['a', 'b', 'c'];
  const servers = [serverOf('a'), httpServerOf('b'), serverOf('c')];
  await bench.run(...servers.map((server) => [server, statefulScript()] as const));
  await bench.set.upstream('c')!.stop();
  await bench.set.apply(new Map(servers.map((server) => [server.name, { ...server, start: 'eager' }])));
  await settled();
  assert.deepEqual(
    names.map((name) => bench.set.state(name)),
    ['running', 'connected', 'stopped'],
  );
});

test('S3.13 a lazy server is not started while its eager replacement starts', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), initialize: () => SILENCE });
  await bench.run([serverOf('a'), script]);
  for (const timeoutMs of [1, 2]) {
    const server = serverOf('a', { start: 'eager', connectionDigest: 'new', timeoutMs });
    void bench.set.apply(new Map([['a', server]]));
    await settled();
  }
  assert.equal(script.links.length, 1);
});

test('a revoked credential restarts a server that runs, and starts none that is stopped, suspended or lazy', async () => {
  const bench = new UpstreamBench();
  const eager = { start: 'eager' } as const;
  const servers = [
    httpServerOf('lazy'),
    httpServerOf('runs', eager),
    httpServerOf('stopped', eager),
    httpServerOf('suspended', { ...eager, enabled: false }),
  ];
  await bench.run(...servers.map((server) => [server, statefulScript()] as const));
  await bench.set.upstream('stopped')!.stop();
  const changed = servers.map(({ name }) => bench.set.credentialChanged(name, null, true));
  await settled();
  await bench.clock.advance(200);
  await Promise.all(changed);
  assert.deepEqual(
    servers.map(({ name }) => [bench.set.state(name), bench.scripts.get(name)!.links.length]),
    [
      ['unknown', 0],
      ['connected', 2],
      ['disconnected', 1],
      ['suspended', 0],
    ],
  );
  await assert.rejects(bench.set.restart('suspended'), { code: 'NOT_SENT', message: /suspended or disabled/ });
  assert.equal(bench.set.state('suspended'), 'suspended');
});

test('a disabled server is suspended, not offered, and comes back when it is enabled', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(client)));
  await bench.set.apply(new Map([['a', serverOf('a', { enabled: false })]]));
  assert.equal(bench.set.status('a')?.state, 'suspended');
  assert.deepEqual(bench.set.servers(), []);
  assert.equal(script.live.length, 0);
  assert.equal(failureOf(await bench.call('a', toolCall(client))).data.retryable, false);
  await bench.set.apply(new Map([['a', serverOf('a', { start: 'eager' })]]));
  await settled();
  assert.equal(bench.set.status('a')?.state, 'running');
});

test('check:A12 S4.17 close ends everything once; calls in flight are UNKNOWN; a second close joins the first', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => SILENCE });
  await bench.run([serverOf('a'), script]);
  const inFlight = bench.call('a', toolCall(client));
  await settled();
  const drained = bench.set.drain(500);
  await bench.clock.advance(500);
  await drained;
  await Promise.all([bench.set.close('shutdown'), bench.set.close('shutdown')]);
  assert.equal(failureOf(await inFlight).outcome, 'UNKNOWN');
  assert.equal(script.last.closedWith, 'shutdown');
  assert.equal(script.live.length, 0);
  assert.equal(bench.clock.pending, 0);
});

test('a client’s own notifications reach its own connections only', async () => {
  const bench = new UpstreamBench();
  const own = statefulScript();
  const shared = statefulScript();
  await bench.run([serverOf('own'), own], [serverOf('shared', { isolation: 'shared' }), shared]);
  const changed = notification('notifications/roots/list_changed', null, 'stateful');
  for (const name of ['own', 'shared']) {
    answerText(await bench.call(name, toolCall(client)));
    bench.set.notify(name, changed, client);
    bench.set.notify(name, changed, clientOf('another'));
  }
  assert.equal(own.last.count('notifications/roots/list_changed'), 1);
  assert.equal(shared.last.count('notifications/roots/list_changed'), 0);
});

test('S3.13 a definition that changes again while its replacement starts leaves one process, of the last definition', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  const { initialize } = script.handlers;
  await bench.run([serverOf('a', { start: 'eager' }), script]);
  script.handlers['initialize'] = () => SILENCE;
  const moved = (changes: object) => new Map([['a', serverOf('a', { start: 'eager', ...changes })]]);
  const applied = [bench.set.apply(moved({ connectionDigest: '2' }))];
  await settled();
  applied.push(bench.set.apply(moved({ connectionDigest: '2', timeoutMs: 5 })));
  await settled();
  applied.push(bench.set.apply(moved({ connectionDigest: '3', timeoutMs: 5 })));
  await settled();
  for (const link of script.live) {
    const asked = link.seen.findLast((seen) => seen.method === 'initialize')!;
    link.respond(asked.id as number, initialize!({}, link, 0));
  }
  await settled();
  await Promise.all(applied);
  assert.equal(script.live.length, 1);
  assert.equal(script.live[0], script.last);
  assert.equal(bench.set.status('a')?.state, 'running');
});

test('S2.27 a server that starts on first use does so also after it was disabled for a time', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statefulServer());
  await bench.run([serverOf('a'), script]);
  await bench.set.apply(new Map([['a', serverOf('a', { enabled: false })]]));
  assert.equal(bench.set.state('a'), 'suspended');
  await bench.set.apply(new Map([['a', serverOf('a')]]));
  await settled();
  assert.deepEqual([bench.set.state('a'), script.links.length, bench.set.reconcile()], ['unknown', 0, []]);
  answerText(await bench.call('a', toolCall(clientOf('s1'))));
});

test('calls in flight are counted from when they come, also while their server starts, until they end in any way', async () => {
  const bench = new UpstreamBench();
  const silent = statefulScript();
  silent.handlers['initialize'] = () => SILENCE;
  const failing = statefulScript();
  failing.openFails = new GatewayError('NOT_SENT', 'spawn nothing ENOENT');
  await bench.run([serverOf('a'), silent], [serverOf('b'), failing], [serverOf('c'), statefulScript()]);
  const waiting = [toolCall(client), toolCall(clientOf('other'))];
  const outcomes = waiting.map((call) => bench.call('a', call));
  failureOf(await bench.call('b', toolCall(client)));
  answerText(await bench.call('c', toolCall(client)));
  assert.equal(bench.set.inFlight, 2);
  const late = toolCall(client);
  late.cancel('before it began');
  failureOf(await bench.call('c', late));
  assert.equal(bench.set.inFlight, 2);
  for (const call of waiting) call.cancel('not wanted');
  await Promise.all(outcomes);
  assert.equal(bench.set.inFlight, 0);
});
