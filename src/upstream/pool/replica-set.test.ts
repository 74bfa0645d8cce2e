import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, statefulServer, statelessServer } from '../../../test/support/scripted-server.ts';
import {
  answerText,
  type BenchOptions,
  clientOf,
  failureOf,
  serverOf,
  TestExchange,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Server } from '../../model/server.ts';
import { request } from '../../protocol/compose.ts';

const three: Partial<Server> = { isolation: 'shared', replicas: 3 };

interface Rig {
  readonly bench: UpstreamBench;
  readonly script: ScriptedServer;
  /** Sends a call of this session (null: without a session) and returns the number of the process that answered. */
  call(session: string | null): Promise<number>;
  replicas(): string[];
}

/** A server whose answers say which process gave them, up with all its replicas. */
async function rigOf(changes: Partial<Server> = three, options: BenchOptions = {}, old = true): Promise<Rig> {
  const bench = new UpstreamBench(options);
  const script = new ScriptedServer(old ? statefulServer() : statelessServer());
  script.handlers['tools/call'] = (_params, link) => ({
    resultType: 'complete',
    content: [{ type: 'text', text: `${link.number}` }],
  });
  await bench.run([serverOf('a', { start: 'eager', ...changes }), script]);
  return {
    bench,
    script,
    call: async (session) => {
      const text = answerText(await bench.call('a', toolCall(clientOf(session))));
      return Number(JSON.parse(text).result.content[0].text);
    },
    replicas: () => bench.set.status('a')!.replicas.map(({ replica, state }) => `${replica} ${state}`),
  };
}

test('check:A13 a shared server runs in the configured number of processes, and the status lists them', async () => {
  const { bench, script, call, replicas } = await rigOf();
  assert.equal(script.live.length, 3);
  assert.deepEqual(replicas(), ['1 running', '2 running', '3 running']);
  await call('one');
  const status = bench.set.status('a')!;
  assert.deepEqual(status.replicas.map(({ health, era, bound }) => [health, era, bound]).sort(), [
    ['healthy', 'stateful', 0],
    ['healthy', 'stateful', 0],
    ['healthy', 'stateful', 1],
  ]);
  assert.deepEqual(status.connections.map(({ key }) => key).sort(), [
    'shared replica 1',
    'shared replica 2',
    'shared replica 3',
  ]);
  assert.equal(new Set(status.replicas.map(({ pid }) => pid)).size, 3);
  assert.equal(bench.set.statuses().length, 1, 'it is one server');
});

test('check:A13 a session keeps the replica that it used, and sessions are spread', async () => {
  const { call, bench } = await rigOf();
  const first = [await call('one'), await call('two'), await call('three')];
  assert.equal(new Set(first).size, 3, 'each session goes to the replica with the fewest');
  for (let i = 0; i < 5; i++) assert.deepEqual([await call('one'), await call('two'), await call('three')], first);
  bench.set.releaseSession('one');
  assert.deepEqual(
    bench.set
      .status('a')!
      .replicas.map(({ bound }) => bound)
      .sort(),
    [0, 1, 1],
  );
});

test('check:A13 a client without a session that names itself keeps its replica too', async () => {
  const { bench } = await rigOf({ ...three, isolationHeader: 'x-agent' });
  const placed = new Map<string, Set<string>>();
  for (let i = 0; i < 6; i++) {
    const handle = i % 2 === 0 ? 'blue' : 'green';
    const text = answerText(await bench.call('a', toolCall(clientOf(null, '{}', { handle }))));
    placed.set(handle, (placed.get(handle) ?? new Set()).add(JSON.parse(text).result.content[0].text));
  }
  assert.deepEqual(
    [...placed.values()].map(({ size }) => size),
    [1, 1],
  );
  assert.notDeepEqual(placed.get('blue'), placed.get('green'));
});

test('check:A13 calls of clients without state go to the replica with the fewest calls', async () => {
  const { bench, script } = await rigOf(three, {}, false);
  script.handlers['tools/call'] = () => SILENCE;
  const calls = Array.from({ length: 6 }, () => bench.call('a', toolCall(clientOf(null))));
  await settled();
  assert.deepEqual(
    script.live.map((link) => link.count('tools/call')),
    [2, 2, 2],
  );
  // One replica has answered its calls, so it receives the next ones.
  const idle = script.live[1]!;
  for (const { id, method } of idle.seen) if (method === 'tools/call') idle.respond(id as number, { content: [] });
  await settled();
  for (let i = 0; i < 2; i++) void bench.call('a', toolCall(clientOf(null)));
  await settled();
  assert.deepEqual(
    script.live.map((link) => link.count('tools/call')),
    [2, 4, 2],
  );
  await bench.set.close('shutdown');
  assert.equal((await Promise.all(calls)).filter(({ kind }) => kind === 'answer').length, 2);
});

test('check:A13 the subscriptions of all clients without a session go to one replica', async () => {
  const { bench, script } = await rigOf();
  script.handlers['resources/subscribe'] = () => ({});
  for (let i = 0; i < 4; i++) {
    const message = request('resources/subscribe', '1', '{"uri":"x:y"}', 'stateless');
    answerText(await bench.call('a', new TestExchange(clientOf(null), message)));
  }
  assert.deepEqual(script.live.map((link) => link.count('resources/subscribe')).sort(), [0, 0, 4]);
});

test('check:A13 a dead replica is replaced while the others serve; its callers and sessions are notified', async () => {
  const { bench, script, call, replicas } = await rigOf();
  const processes = { one: await call('one'), two: await call('two') };
  const dead = script.links[processes.one - 1]!;
  script.handlers['tools/call'] = () => SILENCE;
  const inFlight = bench.call('a', toolCall(clientOf('one')));
  const elsewhere = bench.call('a', toolCall(clientOf('two')));
  await settled();
  dead.end();
  assert.equal(failureOf(await inFlight).outcome, 'UNKNOWN');
  assert.deepEqual([bench.events.lost, bench.events.causes], [['one'], ['restarted']]);
  assert.ok(!bench.events.states.includes('degraded'), 'the server was up all the time');
  await settled();
  assert.equal(script.live.length, 3);
  assert.deepEqual(replicas(), ['1 running', '2 running', '3 running']);
  const survivor = script.links[processes.two - 1]!;
  survivor.respond(survivor.lastOf('tools/call').id as number, { content: [] });
  answerText(await elsewhere);
  assert.equal(bench.set.status('a')!.replicas.filter(({ restarts }) => restarts === 1).length, 1);
});

test('check:A13 a call that was not sent goes to another replica, and its caller does not notice', async () => {
  const { bench, script, call } = await rigOf();
  const process = await call('one');
  const dead = script.links[process - 1]!;
  script.handlers['tools/call'] = (_params, link) => (link === dead ? SILENCE : { content: [] });
  const waiting = bench.call('a', toolCall(clientOf('one')));
  await settled();
  dead.end({ kind: 'exited', code: 1, signal: null }, 'NOT_SENT');
  answerText(await waiting);
});

test('check:A13 a replica that cannot start is backed off alone; the status shows why', async () => {
  const { bench, script, call, replicas } = await rigOf();
  await bench.clock.advance(20_000);
  script.openFails = new GatewayError('NOT_SENT', 'no more of these');
  script.links[1]!.end();
  await settled();
  const failed = bench.set.status('a')!.replicas.find(({ state }) => state === 'failed')!;
  assert.equal(failed.health, 'unhealthy');
  assert.match(failed.reason!, /no more of these/);
  assert.ok(failed.nextRetryAt! > bench.clock.wall());
  const serving = new Set<number>();
  for (let i = 0; i < 6; i++) serving.add(await call(`s${i}`));
  assert.deepEqual([...serving].sort(), [1, 3]);
  assert.equal(bench.set.status('a')!.state, 'running');
  script.openFails = null;
  await bench.clock.advance(60_000);
  assert.deepEqual(replicas(), ['1 running', '2 running', '3 running']);
});

test('check:A13 a replica whose calls fail gets no calls while another one is healthy', async () => {
  const { bench, script } = await rigOf({ ...three, replicas: 2, timeoutMs: 1000, probeMs: 0 }, {}, false);
  const bad = script.links[0]!;
  script.handlers['tools/call'] = (_params, link) => (link === bad ? SILENCE : { content: [] });
  for (let i = 0; i < 8; i++) {
    const outcome = bench.call('a', toolCall(clientOf(null)));
    await settled();
    await bench.clock.advance(1000);
    await outcome;
  }
  assert.equal(bad.count('tools/call'), 3);
  assert.deepEqual(
    bench.set.status('a')!.replicas.map(({ health }) => health),
    ['unhealthy', 'healthy'],
  );
});

test('check:A13 when the last replica dies the server is restarted with all of them', async () => {
  const { bench, script, call, replicas } = await rigOf({ ...three, replicas: 2 });
  await call('one');
  for (const link of script.live) link.end();
  await settled();
  assert.ok(bench.events.states.includes('degraded'));
  assert.equal(bench.set.status('a')!.state, 'running');
  await bench.clock.advance(1000);
  assert.deepEqual(replicas(), ['1 running', '2 running']);
  assert.equal(script.live.length, 2);
  await call('one');
});

test('check:A13 a server that is suspended, removed or closed leaves no replica and no planned start', async () => {
  const { bench, script, call } = await rigOf();
  await call('one');
  const suspended = serverOf('a', { ...three, start: 'eager', enabled: false });
  await bench.set.apply(new Map([['a', suspended]]));
  assert.equal(script.live.length, 0);
  assert.deepEqual(bench.events.lost, ['one']);
  await bench.clock.advance(120_000);
  assert.equal(script.live.length, 0);
  await bench.set.apply(new Map([['a', serverOf('a', { ...three, start: 'eager' })]]));
  await settled();
  assert.equal(script.live.length, 3);
  await call('two');
  await bench.set.apply(new Map());
  assert.equal(script.live.length, 0);
  assert.deepEqual(bench.events.causes, ['restarted', 'removed']);
  await bench.set.close('shutdown');
  assert.equal(bench.clock.pending, 0);
});

test('check:A13 replicas follow the definition, and calls in flight on one that ends finish', async () => {
  const { bench, script, call, replicas } = await rigOf({ isolation: 'shared' });
  assert.equal(script.live.length, 1);
  const apply = (count: number) =>
    bench.set.apply(new Map([['a', serverOf('a', { isolation: 'shared', start: 'eager', replicas: count })]]));
  await apply(3);
  await settled();
  assert.deepEqual(replicas(), ['1 running', '2 running', '3 running']);
  assert.equal(script.links[0]!.state, 'open', 'the first replica goes on');
  for (const session of ['one', 'two', 'three']) await call(session);
  script.handlers['tools/call'] = () => SILENCE;
  const inFlight = ['one', 'two', 'three'].map((session) => bench.call('a', toolCall(clientOf(session))));
  await settled();
  await apply(1);
  await settled();
  assert.deepEqual(replicas(), ['1 running']);
  assert.equal(bench.events.lost.length, 2);
  for (const link of [...script.live].reverse()) {
    link.respond(link.lastOf('tools/call').id as number, { content: [] });
    await settled();
  }
  for (const outcome of inFlight) answerText(await outcome);
  await settled();
  assert.equal(script.live.length, 1);
});

test('check:A13 replicas count as processes: one above a limit waits for room, and the status shows it', async () => {
  const limits = { maxMessageBytes: 1 << 20, maxProcesses: 2 };
  const { bench, script, call, replicas } = await rigOf({ ...three, limits });
  assert.equal(script.live.length, 2);
  assert.deepEqual(replicas(), ['1 running', '2 running', '3 failed']);
  const { reason, consecutiveFailures } = bench.set.status('a')!.replicas[2]!;
  assert.match(reason!, /a runs 2 processes, its limit/);
  assert.equal(consecutiveFailures, 0, 'the limit is no failure of the server');
  await call('one');
  await bench.set.apply(new Map([['a', serverOf('a', { ...three, start: 'eager' })]]));
  await bench.clock.advance(60_000);
  assert.deepEqual(replicas(), ['1 running', '2 running', '3 running']);
});

test('check:A13 all replicas show one catalogue, and replacing one announces nothing', async () => {
  const { bench, script } = await rigOf();
  const client = clientOf('one');
  assert.equal((await bench.set.catalog('a', client, 1000))?.lists.tools.items.length, 1);
  const reported = bench.events.changed.length;
  script.live[2]!.end();
  await settled();
  assert.equal(bench.events.changed.length, reported);
  script.handlers['tools/list'] = () => ({
    tools: [
      { name: 'echo', inputSchema: { type: 'object' } },
      { name: 'new', inputSchema: { type: 'object' } },
    ],
  });
  script.live[1]!.deliver({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
  await bench.clock.advance(1000);
  assert.equal(bench.events.changed.length, reported + 1, 'a change at any replica is announced once');
  for (const session of ['one', 'two', 'three']) {
    assert.equal(bench.set.knownCatalog('a', clientOf(session))?.lists.tools.items.length, 2);
  }
});

test('check:A13 the stream on which a replica reports changes is no load: single calls go to all of them', async () => {
  const bench = new UpstreamBench();
  const script = new ScriptedServer(statelessServer());
  const discover = script.handlers['server/discover']!;
  script.handlers['server/discover'] = (params, link, id) => ({
    ...(discover(params, link, id) as object),
    capabilities: { tools: { listChanged: true } },
  });
  script.handlers['subscriptions/listen'] = () => SILENCE;
  await bench.run([serverOf('a', { start: 'eager', ...three }), script]);
  assert.equal(
    script.live.reduce((sum, link) => sum + link.count('subscriptions/listen'), 0),
    1,
  );
  for (let i = 0; i < 6; i++) answerText(await bench.call('a', toolCall(clientOf(null))));
  assert.deepEqual(
    script.live.map((link) => link.count('tools/call')),
    [2, 2, 2],
  );
});
