import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, statefulScript, statefulServer } from '../../../test/support/scripted-server.ts';
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
import type { ClientProfile } from '../../model/client-profile.ts';
import { POOL_DEFAULTS } from '../../model/desired-state.ts';
import { request } from '../../protocol/compose.ts';
import { connectionKeyText } from '../connection/session-key.ts';

const MINUTE = 60_000;

/** A call of each session, a second apart, so that the first session is idle longest. */
async function callOf(bench: UpstreamBench, ...clients: readonly ClientProfile[]): Promise<void> {
  for (const client of clients) {
    answerText(await bench.call('a', toolCall(client)));
    await bench.clock.advance(1000);
  }
}

const narrow = { limits: { maxMessageBytes: 1 << 20, maxProcesses: 2 } };

test('check:C2 S1.8 at its process limit the longest idle session gives way to a new one at once, and is notified', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', narrow), script]);
  await callOf(bench, clientOf('one'), clientOf('two'), clientOf('three'));
  assert.deepEqual([bench.events.lost, bench.events.causes], [['one'], ['room']]);
  assert.equal(script.links[0]!.state, 'closed', 'the connection that makes room is closed');
  await settled();
  assert.equal(script.live.length, 2);
  await callOf(bench, clientOf('one'));
  assert.deepEqual(
    bench.events.lost,
    ['one', 'two'],
    'an ended session returns with its next call, in the place of another',
  );
});

test('with `sleepAfterMs` a session that had a request within that time is kept, and the new one is refused', async () => {
  const bench = new UpstreamBench({ pool: { ...POOL_DEFAULTS, sleepAfterMs: MINUTE } });
  await bench.run([serverOf('a', narrow), statefulScript()]);
  await callOf(bench, clientOf('one'), clientOf('two'));
  const refused = failureOf(await bench.whenLate(bench.call('a', toolCall(clientOf('three')))));
  assert.deepEqual([refused.code, refused.outcome, refused.data.retryAfterMs], ['OVERLOADED', 'REFUSED', 1_000]);
  await bench.clock.advance(MINUTE);
  await callOf(bench, clientOf('three'));
  assert.deepEqual(bench.events.lost, ['one']);
});

test('S1.8 at the limit a gone client gives way before a present one, even if it called last', async () => {
  const gone = new Set(['two']);
  const bench = new UpstreamBench({
    pool: { ...POOL_DEFAULTS, sleepAfterMs: MINUTE },
    clientGone: (id) => gone.has(id),
  });
  await bench.run([serverOf('a', narrow), statefulScript()]);
  await callOf(bench, clientOf('one'), clientOf('two'), clientOf('three'));
  assert.deepEqual(bench.events.lost, ['two']);
});

test('S1.8 at the limit the process of a gone client gives way while the gateway lists it', async () => {
  const gone = new Set(['two']);
  const bench = new UpstreamBench({ clientGone: (id) => gone.has(id) });
  const script = statefulScript();
  await bench.run([serverOf('a', narrow), script]);
  await callOf(bench, clientOf('one'));
  script.handlers['tools/list'] = () => SILENCE;
  await callOf(bench, clientOf('two'), clientOf('three'));
  assert.deepEqual(bench.events.lost, ['two']);
});

test('S1.8 a subscribed resource keeps its process while its client is present, and for a gone client until all others are in use', async () => {
  const gone = new Set<string>();
  const bench = new UpstreamBench({ clientGone: (id) => gone.has(id) });
  const script = statefulScript();
  script.handlers['resources/subscribe'] = () => ({});
  await bench.run([serverOf('a', narrow), script]);
  const watcher = clientOf('watcher');
  const subscribe = request('resources/subscribe', '1', '{"uri":"x:y"}', 'stateful');
  answerText(await bench.call('a', new TestExchange(watcher, subscribe)));
  await bench.clock.advance(MINUTE);
  await callOf(bench, clientOf('one'), clientOf('two'));
  assert.deepEqual(bench.events.lost, ['one'], 'a present client with a subscription keeps its process');
  gone.add('watcher');
  await callOf(bench, clientOf('three'));
  assert.deepEqual(bench.events.lost, ['one', 'two'], 'an idle process is closed first');
  script.handlers['tools/call'] = () => SILENCE;
  const busy = bench.call('a', toolCall(clientOf('three')));
  await settled();
  script.handlers['tools/call'] = () => ({ content: [] });
  answerText(await bench.call('a', toolCall(clientOf('four'))));
  assert.deepEqual(bench.events.lost, ['one', 'two', 'watcher']);
  await bench.set.close('shutdown');
  assert.equal(failureOf(await busy).outcome, 'UNKNOWN');
});

test('S1.8 S1.15 many new sessions at the limit: each ends one idle session, and none is refused while one is idle', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', { limits: { maxMessageBytes: 1 << 20, maxProcesses: 8 } }), script]);
  await callOf(bench, ...Array.from({ length: 8 }, (_, i) => clientOf(`old ${i}`)));
  const calls = Array.from({ length: 5 }, (_, i) => bench.call('a', toolCall(clientOf(`new ${i}`))));
  for (const outcome of await Promise.all(calls)) answerText(outcome);
  assert.deepEqual(bench.events.lost, ['old 0', 'old 1', 'old 2', 'old 3', 'old 4']);
  assert.equal(script.live.length, 8);
  script.handlers['tools/call'] = () => SILENCE;
  const stuck = Array.from({ length: 12 }, (_, i) => bench.call('a', toolCall(clientOf(`stuck ${i}`))));
  await settled();
  await bench.clock.advance(3_000);
  const refused = (await Promise.all(stuck.map((call) => Promise.race([call, Promise.resolve(null)])))).filter(
    (one) => one !== null,
  );
  assert.equal(refused.length, 4, 'eight processes are in use, and the other calls are refused');
  for (const outcome of refused)
    assert.deepEqual([failureOf(outcome).code, failureOf(outcome).data.retryAfterMs], ['OVERLOADED', 1_000]);
  assert.equal(bench.events.lost.length, 13, 'each of the eight that were idle was ended once');
  await bench.set.close('shutdown');
  await Promise.all(stuck);
});

test('clients of one caller without a session have at most 1,024 connections to an HTTP server: the longest unused gives way, none in use', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a'), script]);
  const of = (n: number, changes = {}) => toolCall(clientOf(null, `{"experimental":{"n":${n}}}`, changes));
  const count = () => bench.set.status('a')!.connections.filter(({ key }) => key === 'principal anonymous').length;
  const first = Array.from({ length: 1_024 }, (_, n) => bench.call('a', of(n)));
  for (const outcome of await Promise.all(first)) answerText(outcome);
  assert.equal(count(), 1_024);
  answerText(await bench.call('a', of(1_024)));
  await settled();
  assert.equal(count(), 1_024);
  script.handlers['tools/call'] = () => SILENCE;
  const busy = Array.from({ length: 1_024 }, (_, n) => bench.call('a', of(n + 1)));
  await settled();
  const opened = script.links.length;
  const refused = failureOf(await bench.call('a', of(0)));
  assert.deepEqual([refused.code, refused.outcome, script.links.length], ['OVERLOADED', 'REFUSED', opened]);
  script.handlers['tools/call'] = () => ({ content: [] });
  answerText(await bench.call('a', of(0, { principal: { id: 'agent:x', name: 'x', servers: null } })));
  await bench.set.close('shutdown');
  for (const outcome of await Promise.all(busy)) assert.equal(failureOf(outcome).outcome, 'UNKNOWN');
});

test('check:C8 a busy session is never ended, however long it works; the answer is OVERLOADED', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  script.handlers['tools/call'] = () => SILENCE;
  await bench.run([serverOf('a', { ...narrow, timeoutMs: 9 * 60 * MINUTE }), script]);
  const busy = ['one', 'two'].map((session) => bench.call('a', toolCall(clientOf(session))));
  await settled();
  await bench.clock.advance(60 * MINUTE);
  assert.equal(failureOf(await bench.whenLate(bench.call('a', toolCall(clientOf('three'))))).code, 'OVERLOADED');
  assert.deepEqual(bench.events.lost, []);
  for (const link of script.live) link.respond(link.lastOf('tools/call').id as number, { content: [] });
  for (const outcome of busy) answerText(await outcome);
});

test('the caller with most idle processes makes room', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a', { limits: { maxMessageBytes: 1 << 20, maxProcesses: 3 } }), script]);
  const agent = { principal: { id: 'agent:x', name: 'x', servers: null } };
  await callOf(bench, clientOf('alone'), clientOf('x1', '{}', agent), clientOf('x2', '{}', agent));
  await callOf(bench, clientOf('new'));
  assert.deepEqual(bench.events.lost, ['x1']);
});

test('at the node’s limit the longest idle session of any server makes room, and processes without a session go first', async () => {
  const bench = new UpstreamBench({ maxProcesses: 2 });
  const servers = ['a', 'b', 'c', 'd'].map((name) => [serverOf(name, { start: 'lazy' }), statefulScript()] as const);
  await bench.run(...servers);
  for (const [i, name] of ['b', 'a'].entries()) {
    answerText(await bench.call(name, toolCall(clientOf(`${i}`))));
    await bench.clock.advance(MINUTE);
  }
  answerText(await bench.call('c', toolCall(clientOf('new'))));
  assert.deepEqual(bench.events.lost, ['0']);
  await bench.set.catalog('d', clientOf('lists', '{"roots":{}}'), 1_000);
  await settled();
  assert.deepEqual(bench.events.lost, ['0', '1'], 'the spare that lists it takes the place of an idle session');
  answerText(await bench.call('b', toolCall(clientOf('other'))));
  assert.deepEqual(bench.events.lost, ['0', '1'], 'and gives it up before another session does');
});

test('S1.2 check:C1 a connection’s key as text is server/session; a slash in either part is encoded, so keys never collide', () => {
  assert.equal(connectionKeyText({ server: 'files', session: 'session 1a2b3c4d' }), 'files/session 1a2b3c4d');
  assert.equal(connectionKeyText({ server: 'a/b', session: 'c' }), 'a%2Fb/c');
  const parts = ['a', 'a/b', 'b/', '/', 'a%2Fb', '%', ''];
  const texts = parts.flatMap((server) => parts.map((session) => connectionKeyText({ server, session })));
  assert.equal(new Set(texts).size, parts.length ** 2);
  for (const text of texts) assert.equal(text.split('/').length, 2);
});

test('S1.3 S1.4 check:C1 a pooled connection is idle, active while it has calls, and closed until it is gone', async () => {
  const bench = new UpstreamBench();
  const answers = statefulServer();
  const script = new ScriptedServer({
    ...answers,
    'tools/call': (params, link, id) => (params.name === 'slow' ? SILENCE : answers['tools/call']!(params, link, id)),
  });
  await bench.run([serverOf('a'), script]);
  const status = () => bench.set.status('a')!.connections;
  const client = clientOf('one');
  answerText(await bench.call('a', toolCall(client)));
  const [idle] = status();
  const createdAt = bench.clock.wall();
  const { key, ...rest } = idle!;
  assert.match(key, /^session [0-9a-f]{8}$/);
  assert.deepEqual(rest, {
    id: `a/${key}`,
    state: 'idle',
    pid: script.last.pid,
    inFlight: 0,
    createdAt,
    lastUsedAt: createdAt,
    requests: 1,
    errors: 0,
    consecutiveErrors: 0,
    lastError: null,
  });
  await bench.clock.advance(500);
  const slow = bench.call('a', toolCall(client, '{"name":"slow"}'));
  await settled();
  const [active] = status();
  const { state, inFlight, requests, lastUsedAt } = active!;
  assert.deepEqual(
    { state, inFlight, requests, lastUsedAt },
    { state: 'active', inFlight: 1, requests: 2, lastUsedAt: createdAt + 500 },
  );
  assert.equal(idle!.state, 'idle', 'a snapshot is a copy');
  script.last.respond(script.last.lastOf('tools/call').id as number, {});
  answerText(await slow);
  assert.equal(status()[0]?.state, 'idle');

  const { promise, resolve } = Promise.withResolvers<void>();
  const link = script.last;
  const close = link.close.bind(link);
  link.close = async (how) => {
    await promise;
    await close(how);
  };
  bench.set.releaseSession('one');
  await settled();
  assert.deepEqual(
    status().map((connection) => [connection.key, connection.state]),
    [[key, 'closed']],
  );
  resolve();
  await settled();
  assert.deepEqual(status(), []);
});

test('S1.8 S1.12 check:C3 look-ups: all connections, and one; a miss opens one; a dead connection is a miss', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  assert.deepEqual(bench.set.status('a')?.connections, []);
  assert.equal(bench.set.status('b'), null);
  for (const session of ['one', 'two']) answerText(await bench.call('a', toolCall(clientOf(session))));
  const listed = bench.set.status('a')!.connections;
  assert.equal(listed.length, 2);
  assert.deepEqual(
    listed.map(({ pid }) => pid),
    script.links.map(({ pid }) => pid),
  );
  const client = clientOf('one');
  assert.equal(bench.set.ownsConnection('a', client), true);
  script.links[0]!.end();
  assert.equal(bench.set.ownsConnection('a', client), false);
  answerText(await bench.call('a', toolCall(client)));
  assert.equal(script.links[0]!.count('tools/call'), 1);
  assert.notEqual(
    bench.set.status('a')!.connections.find(({ pid }) => pid === script.last.pid),
    undefined,
  );
  assert.equal(script.live.length, 2);
});

test('S1.10 check:C3 a deleted connection is closed, and its place is free at once', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  const first = script.last;
  bench.set.releaseSession('one');
  answerText(await bench.call('a', toolCall(clientOf('two'))));
  assert.notEqual(script.last, first);
  assert.deepEqual([first.state, first.closedWith], ['closed', 'remove']);
  assert.equal(script.live.length, 1);
  const second = script.last;
  const { key } = bench.set.status('a')!.connections[0]!;
  assert.equal(bench.set.upstream('a')!.closeConnection('session of another'), false);
  assert.equal(bench.set.upstream('a')!.closeConnection(key), true);
  answerText(await bench.call('a', toolCall(clientOf('two'))));
  assert.deepEqual([second.state, second.closedWith], ['closed', 'remove']);
  assert.equal(script.live.length, 1);
});
