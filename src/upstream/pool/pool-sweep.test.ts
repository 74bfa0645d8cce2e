import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  Refusal,
  ScriptedServer,
  type ScriptedTransport,
  SILENCE,
  statefulScript,
  statefulServer,
  statelessScript,
} from '../../../test/support/scripted-server.ts';
import {
  answerText,
  clientOf,
  failureOf,
  httpServerOf,
  serverOf,
  TestExchange,
  toolCall,
  UpstreamBench,
} from '../../../test/support/upstream-bench.ts';
import { POOL_DEFAULTS } from '../../model/desired-state.ts';
import type { ConnectionStatus } from '../../model/server-state.ts';
import { request } from '../../protocol/compose.ts';

const MINUTE = 60_000;

function connectionsOf(bench: UpstreamBench, server = 'a'): readonly ConnectionStatus[] {
  return bench.set.status(server)!.connections;
}

/** An HTTP server whose calls fail while `fail` is true: the connection outlives each of them. */
function failing(): { readonly script: ScriptedServer; fail: boolean } {
  const answers = statefulServer();
  const echo = answers['tools/call']!;
  const server = {
    fail: true,
    script: new ScriptedServer({
      ...answers,
      'tools/call': (params, link, id) => {
        if (!server.fail) return echo(params, link, id);
        link.lose(id, 'UNKNOWN');
        return SILENCE;
      },
    }),
  };
  return server;
}

test('S1.1 S1.7 check:C2 after 30 minutes without a request the next sweep (every 5) closes a connection', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf(null))));
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  await bench.clock.advance(20 * MINUTE);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  await bench.clock.advance(14 * MINUTE);
  assert.deepEqual(
    script.links.map(({ state }) => state),
    ['open', 'open'],
  );
  await bench.clock.advance(MINUTE);
  assert.deepEqual(
    script.links.map(({ state }) => state),
    ['closed', 'open'],
  );
  assert.equal(connectionsOf(bench).length, 1);
  await bench.clock.advance(20 * MINUTE);
  assert.equal(script.live.length, 0);
  assert.deepEqual(connectionsOf(bench), []);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  assert.equal(script.live.length, 1);
});

test('S1.7 check:C8 the sweep never closes a busy connection: calls, requests of the server, watched resources', async () => {
  const bench = new UpstreamBench();
  const answers = statefulServer();
  const script = new ScriptedServer({
    ...answers,
    'tools/call': (params, link, id) => (params.name === 'slow' ? SILENCE : answers['tools/call']!(params, link, id)),
    'resources/subscribe': () => ({}),
    'resources/unsubscribe': () => ({}),
  });
  await bench.run([serverOf('a', { timeoutMs: 100 * MINUTE }), script]);
  const slow = bench.call('a', toolCall(clientOf('calls'), '{"name":"slow"}'));
  await settled();
  const calling = script.last;
  const watcher = clientOf('watches');
  const about = (method: string) => new TestExchange(watcher, request(method, '"r"', '{"uri":"x://1"}', 'stateful'));
  answerText(await bench.call('a', about('resources/subscribe')));
  const watching = script.last;
  answerText(await bench.call('a', toolCall(clientOf('asked', '{"roots":{}}'))));
  const asking = script.last;
  bench.events.answer = () => new Promise(() => {});
  asking.deliver({ jsonrpc: '2.0', id: 7, method: 'roots/list' });
  await bench.clock.advance(61 * MINUTE);
  assert.deepEqual(
    [calling, watching, asking].map(({ state }) => state),
    ['open', 'open', 'open'],
  );
  calling.respond(calling.lastOf('tools/call').id as number, {});
  answerText(await slow);
  answerText(await bench.call('a', about('resources/unsubscribe')));
  await bench.clock.advance(29 * MINUTE);
  assert.deepEqual([calling.state, watching.state], ['open', 'open'], 'idle time begins with the end of the use');
  await bench.clock.advance(7 * MINUTE);
  assert.deepEqual([calling.state, watching.state, asking.state], ['closed', 'closed', 'open']);
});

test('S1.7 check:C8 the sweep and the process limit keep a process while a task runs, though nothing is in flight', async () => {
  const answers = statefulServer();
  const task = (status: string, ttl: number | null = null) => ({ taskId: 't', status, ttl });
  const begun = async (ttl: number | null = null) => {
    const bench = new UpstreamBench({ maxProcesses: 1 });
    const script = new ScriptedServer({
      ...answers,
      'tools/call': (params, link, id) => {
        return params['task'] === undefined ? answers['tools/call']!(params, link, id) : { task: task('working', ttl) };
      },
      'tasks/get': () => task('completed'),
      'tasks/result': () => ({ content: [] }),
      'tasks/cancel': () => new Refusal(-32602, 'there is no such task'),
    });
    await bench.run([serverOf('a'), script]);
    const exchange = toolCall(clientOf('tasks'), '{"name":"echo","task":{}}');
    answerText(await bench.call('a', Object.assign(exchange, { beginsTask: true })));
    const [link] = script.links;
    return { bench, link: link! };
  };
  const about = (method: string) =>
    new TestExchange(clientOf('tasks'), request(method, '"r"', '{"taskId":"t"}', 'stateful'));
  const ends: Record<string, (bench: UpstreamBench, link: ScriptedTransport) => unknown> = {
    'asked after': async (bench) => answerText(await bench.call('a', about('tasks/get'))),
    'its result given': async (bench) => answerText(await bench.call('a', about('tasks/result'))),
    'not known any more': async (bench) => answerText(await bench.call('a', about('tasks/cancel'))),
    'reported by its server': (_bench, link) =>
      link.deliver({ jsonrpc: '2.0', method: 'notifications/tasks/status', params: task('failed') }),
  };
  for (const [how, end] of Object.entries(ends)) {
    const { bench, link } = await begun();
    await bench.clock.advance(61 * MINUTE);
    assert.equal(failureOf(await bench.whenLate(bench.call('a', toolCall(clientOf('other'))))).code, 'OVERLOADED', how);
    assert.equal(link.state, 'open', how);
    await end(bench, link);
    await bench.clock.advance(29 * MINUTE);
    assert.equal(link.state, 'open', how);
    await bench.clock.advance(7 * MINUTE);
    assert.equal(link.state, 'closed', how);
  }
  const { bench, link } = await begun(40 * MINUTE);
  await bench.clock.advance(39 * MINUTE);
  assert.equal(link.state, 'open');
  await bench.clock.advance(7 * MINUTE);
  assert.equal(link.state, 'closed', 'the ttl of the task is over');
});

test('S1.7 a shared connection stays open, however long it is idle', async () => {
  const bench = new UpstreamBench();
  const modern = statelessScript();
  await bench.run([serverOf('a'), modern]);
  answerText(await bench.call('a', toolCall(clientOf(null))));
  await bench.clock.advance(120 * MINUTE);
  assert.equal(modern.live.length, 1);
  assert.equal(connectionsOf(bench)[0]?.state, 'idle');
});

test('check:C6 a swept HTTP session continues; the loss of a process with state is reported once', async () => {
  const bench = new UpstreamBench();
  const web = statefulScript();
  const { initialize } = web.handlers;
  web.handlers['initialize'] = (params, link, id) => {
    link.sessionId(`upstream-${link.number}`);
    return initialize!(params, link, id);
  };
  const local = statefulScript();
  await bench.run([httpServerOf('web'), web], [serverOf('local'), local]);
  for (const name of ['web', 'local']) answerText(await bench.call(name, toolCall(clientOf('one'))));
  await bench.clock.advance(36 * MINUTE);
  assert.equal(web.last.closedWith, 'shutdown', 'its server keeps the session');
  assert.equal(local.last.closedWith, 'remove');
  assert.deepEqual(bench.events.lost, ['one']);
  assert.deepEqual(bench.events.causes, ['idle']);
  for (const name of ['web', 'local']) answerText(await bench.call(name, toolCall(clientOf('one'))));
  assert.equal(web.last.facts?.resumeSessionId, 'upstream-1');
  assert.equal(web.last.count('initialize'), 0);
  assert.equal(local.last.count('initialize'), 1);
  assert.deepEqual(bench.events.lost, ['one']);
});

test('S1.11 S1.1 check:C2 ten failed requests in a row replace the connection; one success resets the count', async () => {
  const bench = new UpstreamBench();
  const server = failing();
  await bench.run([httpServerOf('a'), server.script]);
  const client = clientOf('one');
  const failures = async (count: number) => {
    server.fail = true;
    for (let i = 0; i < count; i++) failureOf(await bench.call('a', toolCall(client)));
  };
  await failures(9);
  server.fail = false;
  answerText(await bench.call('a', toolCall(client)));
  const [metadata] = connectionsOf(bench);
  assert.deepEqual([metadata!.errors, metadata!.consecutiveErrors], [9, 0]);
  assert.equal(metadata!.lastError, 'lost by the script');
  await failures(9);
  await bench.clock.advance(5 * MINUTE);
  assert.equal(server.script.live.length, 1);
  await failures(1);
  assert.equal(connectionsOf(bench)[0]?.consecutiveErrors, 10);
  await bench.clock.advance(5 * MINUTE);
  assert.deepEqual(connectionsOf(bench), []);
  assert.equal(server.script.last.closedWith, 'remove', 'not to be resumed');
  assert.equal(server.script.live.length, 0);
});

test('S1.9 check:C3 the connection that replaces a failing one begins without errors; the old one is closed', async () => {
  const bench = new UpstreamBench({ pool: { ...POOL_DEFAULTS, sweepMs: 1000, maxErrors: 2 } });
  const server = failing();
  await bench.run([httpServerOf('a', { isolation: 'shared' }), server.script]);
  for (let i = 0; i < 2; i++) failureOf(await bench.call('a', toolCall(clientOf('one'))));
  const before = server.script.last;
  await bench.clock.advance(1000);
  server.fail = false;
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  assert.notEqual(server.script.last, before);
  assert.equal(before.state, 'closed');
  const [metadata] = connectionsOf(bench);
  assert.deepEqual([metadata!.key, metadata!.requests, metadata!.errors, metadata!.lastError], ['shared', 1, 0, null]);
});

test('S1.11 a missed deadline is a failure; a tool’s own error, a refusal and a cancellation are none', async () => {
  const bench = new UpstreamBench();
  const answers: readonly unknown[] = [{ isError: true, content: [] }, SILENCE, SILENCE];
  let call = 0;
  const script = new ScriptedServer({ ...statefulServer(), 'tools/call': () => answers[call++] });
  delete script.handlers['prompts/get'];
  await bench.run([serverOf('a', { timeoutMs: 1000 }), script]);
  const client = clientOf('one');
  const errors = () => connectionsOf(bench).map(({ errors }) => errors);
  answerText(await bench.call('a', toolCall(client)));
  answerText(await bench.call('a', new TestExchange(client, request('prompts/get', '1', '{"name":"x"}', 'stateful'))));
  const given = toolCall(client);
  const cancelled = bench.call('a', given);
  await settled();
  given.cancel('changed my mind');
  failureOf(await cancelled);
  assert.deepEqual(errors(), [0]);
  const late = bench.call('a', toolCall(client));
  await settled();
  await bench.clock.advance(1000);
  assert.equal(failureOf(await late).code, 'TIMEOUT');
  assert.deepEqual(errors(), [1]);
});

test('S1.5 S1.6 the sweep begins with the set, follows its settings, and ends with it', async () => {
  const pool = { idleTimeoutMs: 10_000, sleepAfterMs: 0, sweepMs: 3_000, maxErrors: 1 };
  const bench = new UpstreamBench({ pool });
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  await bench.clock.advance(11_000);
  assert.equal(script.live.length, 1);
  await bench.clock.advance(1_000);
  assert.equal(script.live.length, 0);
  bench.set.limit({
    maxProcesses: 9,
    maxTimeoutMs: MINUTE,
    pool: { idleTimeoutMs: MINUTE, sleepAfterMs: 0, sweepMs: 1_000, maxErrors: 1 },
  });
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  await bench.clock.advance(60_000);
  assert.equal(script.live.length, 1);
  await bench.clock.advance(1_000);
  assert.equal(script.live.length, 0);
  // A shorter interval does not wait for the end of a longer one.
  for (const sweepMs of [60 * MINUTE, 1_000]) {
    const changed = { idleTimeoutMs: MINUTE, sleepAfterMs: 0, sweepMs, maxErrors: 1 };
    bench.set.limit({ maxProcesses: 9, maxTimeoutMs: MINUTE, pool: changed });
    await bench.clock.advance(1_000);
  }
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  await bench.clock.advance(MINUTE + 1_000);
  assert.equal(script.live.length, 0);
  await bench.set.close('shutdown');
  assert.equal(bench.clock.pending, 0);
});

test('S1.7 the process of a gone client is closed after five minutes, that of a present one after the idle time', async () => {
  const gone = new Set(['gone']);
  const bench = new UpstreamBench({ clientGone: (id) => gone.has(id) });
  await bench.run([serverOf('a'), statefulScript()]);
  for (const session of ['gone', 'there']) answerText(await bench.call('a', toolCall(clientOf(session))));
  await bench.clock.advance(10 * MINUTE);
  assert.deepEqual(bench.events.lost, ['gone']);
  await bench.clock.advance(31 * MINUTE);
  assert.deepEqual(bench.events.lost, ['gone', 'there']);
});
