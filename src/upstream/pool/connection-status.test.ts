import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { ScriptedServer, SILENCE, statefulScript, statefulServer } from '../../../test/support/scripted-server.ts';
import { answerText, clientOf, serverOf, toolCall, UpstreamBench } from '../../../test/support/upstream-bench.ts';
import { connectionKeyText } from '../connection/connection-key.ts';

test('S1.2 check:C1 a connection’s key as text is server/session; a slash in either part is encoded, so none collide', () => {
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

test('S1.8 S1.12 check:C3 look-ups: all connections and one; a miss opens one; a dead connection is a miss', async () => {
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

test('S1.10 check:C3 what is deleted is closed, and its place is free at once', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([serverOf('a'), script]);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  const first = script.last;
  bench.set.releaseSession('one');
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  assert.notEqual(script.last, first);
  assert.deepEqual([first.state, first.closedWith], ['closed', 'remove']);
  assert.equal(script.live.length, 1);
  const second = script.last;
  const { key } = bench.set.status('a')!.connections[0]!;
  assert.equal(bench.set.upstream('a')!.closeConnection('session of another'), false);
  assert.equal(bench.set.upstream('a')!.closeConnection(key), true);
  answerText(await bench.call('a', toolCall(clientOf('one'))));
  assert.deepEqual([second.state, second.closedWith], ['closed', 'remove']);
  assert.equal(script.live.length, 1);
});
