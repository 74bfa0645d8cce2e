import assert from 'node:assert/strict';
import { test } from 'node:test';
import { client, GatewayBench } from '../../../test/support/gateway-bench.ts';
import { ANONYMOUS, type Principal } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';

const OF_PRINCIPAL = 32_768;
const OFFERS = { a: { resources: [], capabilities: { resources: { subscribe: true } } } };
const anna: Principal = { ...ANONYMOUS, id: 'agent:anna', name: 'anna' };
const bert: Principal = { ...ANONYMOUS, id: 'agent:bert', name: 'bert' };

/** A gateway in a cluster. `elsewhere`: number of subscriptions of each principal at the other nodes. */
class Bench {
  readonly elsewhere = new Map<string, number>();
  readonly reported: string[] = [];
  /** URIs that the nodes together have no room for. */
  readonly refused = new Set<string>();
  readonly gateway = new GatewayBench(OFFERS, {}, undefined, undefined, {
    subscribedElsewhere: (principal) => this.elsewhere.get(principal) ?? 0,
    subscribed: ({ principal }, { uri }) => void this.reported.push(`${principal.id} ${uri}`),
    refusal: (_sessionId, { uri }) =>
      this.refused.has(uri) ? new GatewayError('OVERLOADED', 'the cluster is full') : null,
    givenUp() {},
    sessionEnded() {},
  });

  /** `agreed`, or the error. */
  async ask(
    method: 'subscribe' | 'unsubscribe',
    principal: Principal,
    sessionId: string,
    uri: string,
    passing = false,
  ): Promise<string> {
    const profile = { ...client('stateful', { sessionId }), principal, passing };
    const outcome = await this.gateway.run(`resources/${method}`, JSON.stringify({ uri: `trunkline://a/${uri}` }), {
      client: profile,
    });
    return outcome.kind === 'answer' ? 'agreed' : `${outcome.error.code} ${outcome.error.message}`;
  }
}

test('the sessions of one principal have a limited number of subscriptions at all nodes together', async () => {
  const bench = new Bench();
  bench.elsewhere.set(anna.id, OF_PRINCIPAL - 2);
  assert.equal(await bench.ask('subscribe', anna, 'one', 'x://1'), 'agreed');
  assert.equal(await bench.ask('subscribe', anna, 'two', 'x://2'), 'agreed');
  const refused = await bench.ask('subscribe', anna, 'two', 'x://3');
  assert.match(
    refused,
    /^OVERLOADED No more than 32768 resources .* in all sessions of one caller: give up others first/,
  );
  // A repeated subscription is allowed, and other principals have limits of their own.
  assert.equal(await bench.ask('subscribe', anna, 'two', 'x://2'), 'agreed');
  assert.equal(await bench.ask('subscribe', bert, 'three', 'x://3'), 'agreed');
  // Each way to have fewer subscriptions.
  await bench.ask('unsubscribe', anna, 'one', 'x://1');
  assert.equal(await bench.ask('subscribe', anna, 'two', 'x://3'), 'agreed');
  assert.match(await bench.ask('subscribe', anna, 'two', 'x://4'), /^OVERLOADED/);
  bench.gateway.gateway.sessionEnded('two');
  assert.equal(await bench.ask('subscribe', anna, 'one', 'x://5'), 'agreed');
  assert.equal(await bench.ask('subscribe', anna, 'one', 'x://6'), 'agreed');
  assert.match(await bench.ask('subscribe', anna, 'one', 'x://7'), /^OVERLOADED/);
  bench.gateway.gateway.givenUp('one', 'a', 'x://5');
  assert.equal(await bench.ask('subscribe', anna, 'one', 'x://7'), 'agreed');
  bench.elsewhere.delete(anna.id);
  assert.equal(await bench.ask('subscribe', anna, 'one', 'x://8'), 'agreed');
  assert.equal(bench.reported.filter((line) => line.startsWith('agent:bert')).length, 1);
});

test('unanswered subscription requests count, refused ones do not', async () => {
  const bench = new Bench();
  const { upstreams } = bench.gateway;
  const respond = upstreams.respond;
  bench.elsewhere.set(anna.id, OF_PRINCIPAL - 1);
  const waiting = Promise.withResolvers<void>();
  upstreams.respond = async (call) => {
    await waiting.promise;
    return respond(call);
  };
  const first = bench.ask('subscribe', anna, 'one', 'x://1');
  assert.match(await bench.ask('subscribe', anna, 'two', 'x://2'), /^OVERLOADED/);
  bench.gateway.gateway.sessionEnded('one');
  waiting.resolve();
  await first;
  assert.equal(await bench.ask('subscribe', anna, 'two', 'x://2'), 'agreed');
});

test('a subscription to a very long URI is refused, because it would be kept', async () => {
  const bench = new Bench();
  const ask = (length: number): Promise<string> => bench.ask('subscribe', anna, 'one', `x://${'u'.repeat(length - 4)}`);
  assert.equal(await ask(8_192), 'agreed');
  assert.match(await ask(8_193), /^INVALID_PARAMS .* 8192 characters/);
  assert.equal(bench.gateway.upstreams.calls.length, 1);
});

test('one session has at most a thousand subscriptions', async () => {
  const bench = new Bench();
  for (let i = 0; i < 1_000; i++) assert.equal(await bench.ask('subscribe', anna, 'one', `x://${i}`), 'agreed');
  assert.match(
    await bench.ask('subscribe', anna, 'one', 'x://more'),
    /^OVERLOADED No more than 1000 .* in one session/,
  );
  assert.equal(await bench.ask('subscribe', anna, 'two', 'x://more'), 'agreed');
});

test('check:C9 a subscription that the nodes have no room for is refused before its server is asked, unless it ends with its node', async () => {
  const bench = new Bench();
  const { upstreams } = bench.gateway;
  const respond = upstreams.respond;
  let asked = 0;
  upstreams.respond = (call) => {
    asked++;
    return respond(call);
  };
  bench.refused.add('x://1');
  assert.equal(await bench.ask('subscribe', anna, 'one', 'x://1'), 'OVERLOADED the cluster is full');
  assert.deepEqual([asked, bench.reported], [0, []]);
  assert.equal(await bench.ask('subscribe', anna, 'one', 'x://2'), 'agreed');
  assert.equal(await bench.ask('subscribe', anna, 'pipe', 'x://1', true), 'agreed');
});
