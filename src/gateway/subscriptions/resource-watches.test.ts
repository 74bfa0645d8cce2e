import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { agent, type BenchExchange, client, GatewayBench, MCP } from '../../../test/support/gateway-bench.ts';
import { pause } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { notification, result } from '../../protocol/compose.ts';

const OLD = {
  resources: ['{"uri":"o://1","name":"1"}', '{"uri":"o://2","name":"2"}'],
  capabilities: { resources: { subscribe: true } },
};

/** A stateful server whose one connection all clients share. */
function shared() {
  const bench = new GatewayBench({ old: OLD });
  const asked = (): string[] =>
    bench.upstreams.calls.map(({ request: { method, body } }) => `${method} ${JSON.parse(body.toString()).uri}`);
  const listen = (uri: string, principal = agent('ann', 'old')): BenchExchange => {
    const params = JSON.stringify({ notifications: { resourceSubscriptions: [uri] } });
    const exchange = bench.exchange('subscriptions/listen', params, { client: client('stateless', { principal }) });
    void bench.gateway.run(exchange, MCP);
    return exchange;
  };
  const subscribe = (sessionId: string, uri: string, method = 'resources/subscribe'): Promise<Outcome> =>
    bench.run(method, JSON.stringify({ uri }), { client: client('stateful', { sessionId }) });
  const update = (uri: string): void =>
    bench.gateway.notification(
      'old',
      null,
      notification('notifications/resources/updated', JSON.stringify({ uri }), 'stateful'),
    );
  return { bench, asked, listen, subscribe, update };
}

function reported({ emitted }: BenchExchange): string[] {
  return emitted.slice(1).map(({ body }) => JSON.parse(body.toString()).uri);
}

test('check:B8 500 listeners and 500 sessions on a shared connection are one subscription, which ends with the last of them', async () => {
  const { bench, asked, listen, subscribe, update } = shared();
  bench.upstreams.respond = async () => {
    await settled();
    return answer(result('9', '{}', 'stateful'));
  };
  // The clients have several principals: the subscription belongs to the connection.
  const listeners = Array.from({ length: 500 }, (_, i) => listen('o://1', agent(`a${i % 3}`, 'old')));
  const outcomes = await Promise.all(Array.from({ length: 500 }, (_, i) => subscribe(`s${i}`, 'o://1')));
  await settled();
  assert.deepEqual(asked(), ['resources/subscribe o://1']);
  assert.ok(outcomes.every((outcome) => outcome.kind === 'answer' && outcome.message.kind === 'result'));
  update('o://1');
  update('o://2');
  for (const listener of listeners) assert.deepEqual(reported(listener), ['o://1']);
  assert.equal(bench.streams.delivered.length, 500);
  for (const listener of listeners) listener.cancel('gone');
  for (let i = 0; i < 499; i++) bench.gateway.sessionEnded(`s${i}`);
  await settled();
  assert.equal(asked().length, 1);
  await subscribe('s499', 'o://1', 'resources/unsubscribe');
  assert.deepEqual(asked(), ['resources/subscribe o://1', 'resources/unsubscribe o://1']);
});

test('check:B8 a new connection gets the same subscriptions, and the watchers are notified of an update once', async () => {
  const { bench, asked, listen, subscribe } = shared();
  const listener = listen('o://1');
  await subscribe('s', 'o://2');
  await settled();
  bench.gateway.connectionChanged('old', 'shared', 'ended');
  bench.gateway.connectionChanged('old', 'shared', 'opened');
  bench.gateway.connectionChanged('old', 'else', 'opened');
  await settled();
  bench.gateway.connectionChanged('old', 'shared', 'renewed');
  await bench.clock.advance(5_000);
  assert.deepEqual(asked().slice(2).sort(), ['resources/subscribe o://1', 'resources/subscribe o://2']);
  assert.deepEqual(reported(listener), ['o://1']);
  assert.deepEqual(
    bench.streams.delivered.map(({ message }) => JSON.parse(message.body.toString()).uri).filter(Boolean),
    ['o://2'],
  );
  // The stream broke and is back: the gateway does not know the missed updates here either.
  bench.gateway.connectionChanged('old', 'shared', 'missed');
  assert.deepEqual(reported(listener), ['o://1', 'o://1']);
  assert.equal(asked().length, 4);
});

test('check:B8 check:C9 after the loss of a node only clients that were served there are subscribed anew', async () => {
  const { bench, asked, listen } = shared();
  const listener = listen('o://1');
  await settled();
  bench.gateway.nodeSilent((server) => server === 'other');
  bench.gateway.nodeSilent((_server, { principal }) => principal.name !== 'ann');
  await bench.clock.advance(5_000);
  assert.deepEqual([asked().length, reported(listener)], [1, []]);
  bench.gateway.nodeSilent((server, { principal }) => server === 'old' && principal.name === 'ann');
  await bench.clock.advance(5_000);
  assert.deepEqual(asked(), ['resources/subscribe o://1', 'resources/subscribe o://1']);
  assert.deepEqual(reported(listener), ['o://1']);
});

test('check:B8 a subscription that could not be renewed is renewed as soon as the server is back', async () => {
  const { bench, asked, listen } = shared();
  const listener = listen('o://1');
  await settled();
  bench.upstreams.respond = () => failure(new GatewayError('NOT_SENT', 'lost'));
  bench.gateway.nodeSilent(() => true);
  await bench.clock.advance(20_000);
  const before = asked().length;
  bench.upstreams.respond = () => answer(result('9', '{}', 'stateful'));
  bench.gateway.instancesGained(new Set(['other']));
  await settled();
  assert.equal(asked().length, before);
  bench.gateway.instancesGained(new Set(['else', 'old']));
  bench.gateway.instancesGained(new Set(['old']));
  await settled();
  assert.deepEqual([asked().length, reported(listener)], [before + 1, ['o://1']]);
});

test('check:B8 if an instance appears while a renewal fails, the next try comes soon', async () => {
  const { bench, asked, listen } = shared();
  const listener = listen('o://1');
  await settled();
  let answers: Outcome = failure(new GatewayError('NOT_SENT', 'lost'));
  let trying = false;
  bench.upstreams.respond = async () => {
    trying = true;
    await pause(bench.clock, 100);
    trying = false;
    return answers;
  };
  bench.gateway.nodeSilent(() => true);
  await bench.clock.advance(20_000);
  while (!trying) await bench.clock.advance(50);
  const before = asked().length;
  bench.gateway.instancesGained(new Set(['old']));
  await bench.clock.advance(100);
  assert.equal(asked().length, before, 'it is being tried');
  answers = answer(result('9', '{}', 'stateful'));
  await bench.clock.advance(600);
  assert.deepEqual([asked().length, reported(listener)], [before + 1, ['o://1']]);
});

test('check:B8 a renewal over an unknown connection is reported with that connection', async () => {
  const { bench, asked, listen } = shared();
  const listeners = [listen('o://1'), listen('o://1', agent('bob', 'old'))];
  await settled();
  let key = 'shared';
  bench.upstreams.sessionKey = () => key;
  bench.upstreams.respond = () => {
    key = 'shared replica 2';
    return answer(result('9', '{}', 'stateful'));
  };
  bench.gateway.nodeSilent(() => true);
  await bench.clock.advance(5_000);
  assert.equal(asked().length, 2);
  for (const listener of listeners) assert.deepEqual(reported(listener), ['o://1']);
  const updated = notification('notifications/resources/updated', '{"uri":"o://1"}', 'stateful');
  bench.gateway.notification('old', null, updated, 'shared');
  for (const listener of listeners) assert.deepEqual(reported(listener), ['o://1']);
  bench.gateway.notification('old', null, updated, 'shared replica 2');
  for (const listener of listeners) assert.deepEqual(reported(listener), ['o://1', 'o://1']);
  await bench.clock.advance(60_000);
  assert.equal(asked().length, 2, 'no request is sent again');
});

test('check:B8 a connection that does not return is requested at growing intervals while a client watches', async () => {
  const { bench, asked, listen } = shared();
  const listener = listen('o://1');
  await settled();
  bench.upstreams.respond = () => failure(new GatewayError('NOT_SENT', 'down'));
  bench.gateway.connectionChanged('old', 'shared', 'ended');
  for (const [ms, calls] of [
    [499, 1],
    [1, 2],
    [999, 2],
    [1, 3],
    [2_000, 4],
  ] as const) {
    await bench.clock.advance(ms);
    assert.equal(asked().length, calls);
  }
  bench.upstreams.respond = () => answer(result('9', '{}', 'stateful'));
  await bench.clock.advance(4_000);
  assert.equal(asked().length, 5);
  assert.deepEqual(reported(listener), ['o://1']);
  // Without watchers, the gateway neither retries nor unsubscribes at a server whose connection has ended.
  bench.gateway.connectionChanged('old', 'shared', 'ended');
  listener.cancel('gone');
  await bench.clock.advance(60_000);
  assert.equal(asked().length, 5);
  assert.equal(bench.clock.pending, 0);
});

test('a client that subscribes during another’s request is not refused when that request is cancelled', async () => {
  const { bench, asked, subscribe } = shared();
  let first = true;
  bench.upstreams.respond = async () => {
    await settled();
    const cancelled = first;
    first = false;
    return cancelled ? failure(new GatewayError('CANCELLED', 'gone')) : answer(result('9', '{}', 'stateful'));
  };
  const [one, two] = await Promise.all([subscribe('one', 'o://1'), subscribe('two', 'o://1')]);
  assert.deepEqual([one?.kind, two?.kind], ['failure', 'answer']);
  assert.equal(asked().length, 2);
});

test('check:B8 a client that subscribes before the renewal subscribes for the others, which are notified of an update', async () => {
  const { bench, asked, listen, subscribe } = shared();
  const listener = listen('o://1');
  await settled();
  bench.gateway.connectionChanged('old', 'shared', 'ended');
  await subscribe('s', 'o://1');
  assert.deepEqual(reported(listener), ['o://1']);
  await bench.clock.advance(5_000);
  assert.deepEqual([asked().length, reported(listener)], [2, ['o://1']]);
  assert.deepEqual(bench.streams.delivered, [], 'the new client has missed nothing');
});

test('concurrent first subscribers get no update, also if the first of them is refused', async () => {
  const { bench, asked, subscribe } = shared();
  bench.upstreams.respond = async () => {
    const refused = asked().length === 1;
    await settled();
    return refused ? failure(new GatewayError('CANCELLED', 'gone')) : answer(result('9', '{}', 'stateful'));
  };
  const outcomes = await Promise.all(['one', 'two', 'three'].map((session) => subscribe(session, 'o://1')));
  assert.deepEqual(
    outcomes.map(({ kind }) => kind),
    ['failure', 'answer', 'answer'],
  );
  assert.deepEqual(bench.streams.delivered, []);
});

test('check:A13 a client served by another replica since its own ended watches there, and is notified of an update', async () => {
  const { bench, asked, subscribe } = shared();
  const replicas: Record<string, string> = { s: 'replica 1', t: 'replica 2' };
  bench.upstreams.sessionKey = (_server, { sessionId }) => replicas[sessionId ?? '']!;
  for (const session of ['s', 't']) await subscribe(session, 'o://1');
  assert.equal(asked().length, 2);
  replicas['s'] = 'replica 2';
  bench.gateway.connectionChanged('old', 'replica 1', 'ended');
  await bench.clock.advance(500);
  const updated = () => bench.streams.delivered.filter(({ message }) => message.method.endsWith('updated'));
  assert.deepEqual(
    updated().map(({ sessionId }) => sessionId),
    ['s'],
    'the gateway does not know which updates it missed',
  );
  assert.equal(asked().length, 2, 'that replica had accepted this subscription for another client');
  const message = notification('notifications/resources/updated', '{"uri":"o://1"}', 'stateful');
  bench.gateway.notification('old', null, message, 'replica 2');
  assert.deepEqual(
    updated()
      .map(({ sessionId }) => sessionId)
      .sort(),
    ['s', 's', 't'],
  );
  // The first of them to have subscribed leaves; the other goes on.
  bench.gateway.sessionEnded('t');
  await settled();
  assert.equal(asked().length, 2);
  replicas['s'] = 'replica 3';
  bench.gateway.connectionChanged('old', 'replica 2', 'ended');
  await bench.clock.advance(500);
  assert.deepEqual(asked().slice(2), ['resources/subscribe o://1']);
  bench.gateway.notification('old', null, message, 'replica 3');
  assert.equal(updated().at(-1)?.sessionId, 's');
});

test('an update of a part of a resource has the form of the URI that the client is subscribed to', async () => {
  const { bench, listen, subscribe, update } = shared();
  const watched = ['skill://trunkline/old/pdf', 'trunkline://old/o://1', 'skill://pdf', 'o://1'];
  const listeners = watched.map((uri) => listen(uri));
  for (const uri of watched) await subscribe(`of ${uri}`, uri);
  await settled();
  const updates = ['skill://pdf', 'skill://pdf/SKILL.md', 'skill://pdfs', 'o://1', 'o://1/part', 'o://1#2'];
  for (const uri of updates) update(uri);
  const expected = [
    ['skill://trunkline/old/pdf', 'skill://trunkline/old/pdf/SKILL.md'],
    ['trunkline://old/o://1', 'trunkline://old/o://1/part', 'trunkline://old/o://1#2'],
    ['skill://pdf', 'skill://pdf/SKILL.md'],
    ['o://1', 'o://1/part', 'o://1#2'],
  ];
  for (const [i, uri] of watched.entries()) {
    assert.deepEqual(reported(listeners[i]!), expected[i]);
    const delivered = bench.streams.delivered.filter(({ sessionId }) => sessionId === `of ${uri}`);
    assert.deepEqual(
      delivered.map(({ message }) => JSON.parse(message.body.toString()).uri),
      expected[i],
    );
  }
});
