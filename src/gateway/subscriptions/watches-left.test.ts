import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import { client, endpointOf, GatewayBench } from '../../../test/support/gateway-bench.ts';
import type { Advertisement } from '../../../test/support/server-catalogs.ts';
import { answer } from '../../model/outcome.ts';
import { errorAnswer, result } from '../../protocol/compose.ts';

const OLD: Advertisement = {
  resources: ['{"uri":"o://1","name":"1"}'],
  capabilities: { resources: { subscribe: true } },
};
const ENDPOINT = endpointOf('old');
const PARAMS = '{"uri":"o://1"}';

function started(advertisement: Advertisement | null) {
  const bench = new GatewayBench({ old: advertisement });
  bench.upstreams.respond = () => answer(result('9', '{}', 'stateful'));
  const subscribing = (sessionId: string) => {
    const exchange = bench.exchange('resources/subscribe', PARAMS, { client: client('stateful', { sessionId }) });
    return { exchange, outcome: bench.gateway.run(exchange, ENDPOINT) };
  };
  const methods = () => bench.upstreams.calls.map(({ request }) => request.method);
  /** The connection is lost; the gateway renews the subscriptions that clients still have. */
  const lost = async () => {
    bench.gateway.connectionChanged('old', 'shared', 'ended');
    await bench.clock.advance(60_000);
    await settled();
  };
  return { bench, subscribing, methods, lost };
}

test('a session that ends while its server is away ends its watches', async () => {
  const { bench, subscribing, methods, lost } = started(OLD);
  await subscribing('s1').outcome;
  const { sessionKey } = bench.upstreams;
  bench.upstreams.sessionKey = () => null as never;
  bench.gateway.sessionEnded('s1');
  bench.upstreams.sessionKey = sessionKey;
  await lost();
  assert.deepEqual(methods(), ['resources/subscribe'], 'no client is subscribed any more');
  await subscribing('s2').outcome;
  assert.deepEqual(methods(), ['resources/subscribe', 'resources/subscribe']);
});

test('a session that ends while its server is still being asked subscribes to nothing', async () => {
  const { bench, subscribing, methods, lost } = started(null);
  const { exchange, outcome } = subscribing('s1');
  await settled();
  exchange.cancel('the session has ended');
  bench.gateway.sessionEnded('s1');
  bench.upstreams.listed('old', OLD);
  const given = await outcome;
  assert.ok(given.kind === 'failure' && given.error.outcome === 'NOT_SENT');
  await lost();
  assert.deepEqual(methods(), []);
});

test('a watch renewed for a client that has left meanwhile is ended', async () => {
  const { bench, subscribing, methods } = started(OLD);
  await subscribing('s1').outcome;
  let agree: () => void = () => {};
  const agreed = answer(result('9', '{}', 'stateful'));
  bench.upstreams.respond = () =>
    new Promise((resolve) => {
      agree = () => resolve(agreed);
    });
  bench.gateway.connectionChanged('old', 'shared', 'opened');
  bench.gateway.connectionChanged('old', 'shared', 'ended');
  await bench.clock.advance(1_000);
  assert.equal(methods().length, 2);
  bench.gateway.sessionEnded('s1');
  agree();
  await settled();
  assert.deepEqual(methods().slice(1), ['resources/subscribe', 'resources/unsubscribe']);
});

test('concurrent subscriptions of a session count while its server is being asked, and no longer', async () => {
  const bench = new GatewayBench({ old: OLD });
  const { promise, resolve } = Promise.withResolvers<void>();
  bench.upstreams.respond = () => promise.then(() => answer(errorAnswer('9', -32002, 'no', null, 'stateful')));
  const subscribe = (i: number) => {
    const exchange = bench.exchange('resources/subscribe', `{"uri":"o://${i}"}`, { client: client('stateful') });
    return bench.gateway.run(exchange, ENDPOINT);
  };
  const all = Array.from({ length: 1_001 }, (_, i) => subscribe(i));
  await settled();
  assert.equal(bench.upstreams.calls.length, 1_000);
  const last = await all.pop()!;
  assert.ok(last.kind === 'failure' && last.error.code === 'OVERLOADED');
  resolve();
  await Promise.all(all);
  assert.equal((await subscribe(2_000)).kind, 'answer', 'refused subscriptions do not count');
});
