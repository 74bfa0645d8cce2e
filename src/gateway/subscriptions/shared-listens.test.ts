import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  agent,
  type BenchExchange,
  type Call,
  client,
  GatewayBench,
  MCP,
} from '../../../test/support/gateway-bench.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { errorAnswer, notification, result } from '../../protocol/compose.ts';

const URIS = ['y://1', 'y://2', 'y://3'];
const YOUNG = {
  era: 'stateless',
  resources: URIS.map((uri) => `{"uri":"${uri}","name":"${uri}"}`),
  capabilities: { resources: { subscribe: true } },
} as const;

/** A stateless server whose listens are answered by hand. */
class Server {
  readonly bench = new GatewayBench({ young: YOUNG });
  readonly #ends = new Map<Call, (outcome: Outcome) => void>();
  acknowledges = true;

  constructor() {
    this.bench.upstreams.respond = (call) => {
      if (this.acknowledges) this.acknowledge(call);
      return new Promise((resolve) => this.#ends.set(call, resolve));
    };
  }

  get listens(): readonly Call[] {
    return this.bench.upstreams.calls;
  }

  /** Listens that were not given up. */
  get open(): readonly Call[] {
    return this.listens.filter(({ exchange }) => exchange.cancelled === null);
  }

  asked(call: Call): string[] {
    return JSON.parse(call.request.body.toString()).notifications.resourceSubscriptions;
  }

  acknowledge(call: Call, uris = this.asked(call)): void {
    const params = JSON.stringify({ notifications: { resourceSubscriptions: uris } });
    call.exchange.emit(notification('notifications/subscriptions/acknowledged', params, 'stateless'));
  }

  update(call: Call, uri: string, more = ''): void {
    const params = `{"_meta":{"io.modelcontextprotocol/subscriptionId":0},"uri":"${uri}"${more}}`;
    call.exchange.emit(notification('notifications/resources/updated', params, 'stateless'));
  }

  end(call: Call, outcome: Outcome): void {
    this.#ends.get(call)!(outcome);
  }

  listen(uris: readonly string[], profile = client('stateless')): BenchExchange {
    const params = JSON.stringify({ notifications: { resourceSubscriptions: uris } });
    const exchange = this.bench.exchange('subscriptions/listen', params, { client: profile });
    void this.bench.gateway.run(exchange, MCP);
    return exchange;
  }

  subscribe(sessionId: string, uri: string, method = 'resources/subscribe'): Promise<Outcome> {
    return this.bench.run(method, JSON.stringify({ uri }), { client: client('stateful', { sessionId }) });
  }

  /** The URIs of the updates that the session received. */
  delivered(sessionId: string): string[] {
    return this.bench.streams.delivered
      .filter((reported) => reported.sessionId === sessionId)
      .map(({ message }) => JSON.parse(message.body.toString()).uri);
  }
}

function failureOf(outcome: Outcome): string {
  return outcome.kind === 'failure' ? outcome.error.code : 'answered';
}

function reported(exchange: BenchExchange): string[] {
  return exchange.emitted.map(({ body }) => {
    const { uri, notifications } = JSON.parse(body.toString());
    return uri ?? `ack ${notifications.resourceSubscriptions?.join(' ') ?? ''}`;
  });
}

test('check:B8 500 listeners and 500 sessions on one resource are one subscription at the server, each notified once', async () => {
  const server = new Server();
  const listeners = Array.from({ length: 500 }, () => server.listen(['y://1']));
  const answers = await Promise.all(Array.from({ length: 500 }, (_, i) => server.subscribe(`s${i}`, 'y://1')));
  await settled();
  assert.equal(server.listens.length, 1);
  assert.ok(answers.every((outcome) => outcome.kind === 'answer' && outcome.message.kind === 'result'));
  server.update(server.listens[0]!, 'y://1');
  for (const listener of listeners) assert.deepEqual(reported(listener), ['ack y://1', 'y://1']);
  for (let i = 0; i < 500; i++) assert.deepEqual(server.delivered(`s${i}`), ['y://1']);
  // The subscription ends with the last of them, and not before.
  for (const listener of listeners) listener.cancel('gone');
  for (let i = 0; i < 499; i++) server.bench.gateway.sessionEnded(`s${i}`);
  await server.bench.clock.advance(2_000);
  assert.equal(server.open.length, 1);
  assert.equal(server.listens.length, 1);
  await server.subscribe('s499', 'y://1', 'resources/unsubscribe');
  assert.equal(server.open.length, 0);
  assert.equal(server.bench.clock.pending, 0);
});

test('a subscription that ends before the server acknowledged it is answered', async () => {
  const server = new Server();
  server.acknowledges = false;
  const ways: Record<string, (exchange: BenchExchange) => unknown> = {
    unsubscribed: () => server.subscribe('s', 'y://1', 'resources/unsubscribe'),
    cancelled: (exchange) => exchange.cancel('Esc'),
    ended: () => server.bench.gateway.sessionEnded('s'),
  };
  for (const [way, end] of Object.entries(ways)) {
    const profile = client('stateful', { sessionId: 's' });
    const exchange = server.bench.exchange('resources/subscribe', '{"uri":"y://1"}', { client: profile });
    const outcome = server.bench.gateway.run(exchange, MCP);
    await settled();
    assert.equal(server.open.length, 1, way);
    await end(exchange);
    assert.equal(failureOf(await outcome), 'CANCELLED', way);
    assert.equal(server.open.length, 0, way);
  }
});

test('fault:F30 a session that ends while its subscription is taken over gets none', async () => {
  const server = new Server();
  const profile = client('stateful', { sessionId: 's' });
  const taken = server.bench.gateway.subscribeAgain(profile, { server: 'young', uri: 'y://1', exposed: 'y://1' });
  server.bench.gateway.sessionEnded('s');
  assert.equal(await taken, 'refused');
  await settled();
  assert.deepEqual(server.listens, []);
});

test('check:B8 principals do not share a subscription, and each gets only its own updates', async () => {
  const server = new Server();
  const ann = server.listen(['y://1', 'y://2'], client('stateless', { principal: agent('ann', 'young') }));
  await settled();
  const bob = server.listen(['y://2'], client('stateless', { principal: agent('bob', 'young') }));
  await settled();
  assert.deepEqual(
    server.listens.map((call) => server.asked(call)),
    [['y://1', 'y://2'], ['y://2']],
  );
  const other = server.listen(['y://2'], client('stateless', { principal: agent('ann', 'young') }));
  await settled();
  assert.equal(server.listens.length, 2);
  server.update(server.listens[0]!, 'y://1');
  server.update(server.listens[1]!, 'y://2');
  // A part of a subscribed resource, under a URI of its own, and a resource that no client requested.
  server.update(server.listens[0]!, 'y://2/part');
  server.update(server.listens[0]!, 'y://22');
  assert.deepEqual(reported(ann), ['ack y://1 y://2', 'y://1', 'y://2/part']);
  assert.deepEqual(reported(other), ['ack y://2', 'y://2/part']);
  assert.deepEqual(reported(bob), ['ack y://2', 'y://2']);
});

test('check:B8 a changed set: the new listen is acknowledged before the old one closes, and no update is missed', async () => {
  const server = new Server();
  const first = server.listen(['y://1']);
  await settled();
  server.acknowledges = false;
  const second = server.listen(['y://2']);
  await settled();
  const [before, after] = server.listens as [Call, Call];
  assert.deepEqual(server.asked(after), ['y://1', 'y://2']);
  assert.equal(before.exchange.cancelled, null);
  server.update(before, 'y://1', ',"n":1');
  assert.deepEqual(reported(second), [], 'not before the acknowledgement');
  server.acknowledge(after);
  assert.equal(before.exchange.cancelled, null, 'the old listen stays open for updates under way');
  server.update(before, 'y://1', ',"n":2');
  server.update(after, 'y://1', ',"n":3');
  server.update(before, 'y://1', ',"n":3');
  server.update(after, 'y://2');
  await server.bench.clock.advance(250);
  assert.equal(before.exchange.cancelled, 'the subscription has ended');
  assert.equal(after.exchange.cancelled, null);
  assert.deepEqual(reported(first), ['ack y://1', 'y://1', 'y://1', 'y://1', 'y://1'], 'some come twice');
  assert.deepEqual(reported(second), ['ack y://2', 'y://2']);
  // A resource without subscribers is dropped the same way.
  server.acknowledges = true;
  first.cancel('gone');
  await server.bench.clock.advance(1_000);
  assert.deepEqual(server.asked(server.listens[2]!), ['y://2']);
  await server.bench.clock.advance(250);
  assert.deepEqual(server.open, [server.listens[2]]);
});

test('check:B8 after a break every resource is reported as updated, once', async () => {
  const server = new Server();
  const listener = server.listen(['y://1', 'y://2']);
  await settled();
  await server.subscribe('s', 'y://2');
  server.end(server.listens[0]!, failure(new GatewayError('UNKNOWN', 'broken')));
  await settled();
  await server.bench.clock.advance(1_000);
  assert.equal(server.listens.length, 2);
  assert.deepEqual(reported(listener), ['ack y://1 y://2', 'y://1', 'y://2']);
  assert.deepEqual(server.delivered('s'), ['y://2']);
  // A server that stops ends the listen with a result; the gateway opens it again.
  server.end(server.listens[1]!, answer(result('0', '{"resultType":"complete"}', 'stateless')));
  await settled();
  await server.bench.clock.advance(2_000);
  assert.equal(server.listens.length, 3);
  assert.deepEqual(reported(listener).slice(3), ['y://1', 'y://2']);
});

test('check:B8 proto:C6 an answer from before a break is not used once the resource is reported as updated', async () => {
  const server = new Server();
  server.listen(['y://1']);
  await settled();
  const { respond } = server.bench.upstreams;
  let reads = 0;
  server.bench.upstreams.respond = (call) => {
    if (call.request.method !== 'resources/read') return respond(call);
    const text = `"contents":[{"uri":"y://1","text":"${++reads}"}]`;
    return answer(result('9', `{"resultType":"complete",${text},"ttlMs":60000,"cacheScope":"private"}`, 'stateless'));
  };
  const read = () => server.bench.run('resources/read', '{"uri":"y://1"}', { era: 'stateless' });
  await read();
  await read();
  assert.equal(reads, 1, 'kept');
  server.end(server.listens[0]!, failure(new GatewayError('UNKNOWN', 'broken')));
  await settled();
  await server.bench.clock.advance(1_000);
  await read();
  assert.equal(reads, 2);
});

test('a server that ends every listen is asked at growing intervals; one that held it for long is asked again at once', async () => {
  const server = new Server();
  const listener = server.listen(['y://1']);
  const { clock } = server.bench;
  for (let seconds = 0; seconds < 600; seconds++) {
    await settled();
    server.end(server.listens.at(-1)!, answer(result('9', '{"resultType":"complete"}', 'stateless')));
    await settled();
    await clock.advance(1_000);
  }
  const asked = server.listens.length;
  assert.ok(asked > 5 && asked < 20, `${asked}`);
  assert.ok(reported(listener).length < 20);
  await clock.advance(60_000);
  const last = server.listens.length;
  await clock.advance(10 * 60_000);
  server.end(server.listens.at(-1)!, answer(result('9', '{"resultType":"complete"}', 'stateless')));
  await settled();
  await clock.advance(2_000);
  await settled();
  assert.equal(server.listens.length, last + 1);
});

test('one subscriber whose request the server refuses does not affect the others', async () => {
  const server = new Server();
  const good = server.listen(['y://1']);
  await settled();
  server.bench.upstreams.respond = (call) => {
    if (server.asked(call).includes('y://3')) {
      return answer(errorAnswer('0', -32602, 'no such thing', null, 'stateless'));
    }
    server.acknowledge(call);
    return new Promise(() => {});
  };
  const outcomes = await Promise.all([server.subscribe('a', 'y://3'), server.subscribe('b', 'y://2')]);
  assert.deepEqual(
    outcomes.map((outcome) => (outcome.kind === 'answer' ? outcome.message.kind : outcome.kind)),
    ['error', 'result'],
  );
  assert.deepEqual(server.asked(server.open.at(-1)!), ['y://1', 'y://2']);
  assert.deepEqual(reported(good), ['ack y://1']);
});

test('a listen has what the server honours, and after 2 s without an acknowledgement all that it requested', async () => {
  const server = new Server();
  server.acknowledges = false;
  const listener = server.listen(['y://1', 'y://2']);
  await settled();
  server.acknowledge(server.listens[0]!, ['y://2']);
  await settled();
  assert.deepEqual(reported(listener), ['ack y://2']);
  const refused = await server.subscribe('s', 'y://1');
  assert.equal(refused.kind, 'failure');
  const silent = server.listen(['y://3']);
  await settled();
  assert.deepEqual(reported(silent), []);
  await server.bench.clock.advance(2_000);
  assert.deepEqual(reported(silent), ['ack y://3']);
});

test('an update of a part of a resource has the form of the URI that the client is subscribed to', async () => {
  for (const [subscribed, own] of [
    ['skill://trunkline/young/pdf', 'skill://pdf'],
    ['trunkline://young/y://1', 'y://1'],
    ['skill://pdf', 'skill://pdf'],
  ] as const) {
    const server = new Server();
    const listener = server.listen([subscribed, 'y://2']);
    await settled();
    await server.subscribe('s', subscribed);
    for (const part of ['', '/SKILL.md', 's']) server.update(server.listens[0]!, `${own}${part}`);
    const updates = [subscribed, `${subscribed}/SKILL.md`];
    assert.deepEqual(reported(listener), [`ack ${subscribed} y://2`, ...updates]);
    assert.deepEqual(server.delivered('s'), updates);
  }
});
