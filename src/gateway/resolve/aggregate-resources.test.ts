import assert from 'node:assert/strict';
import { test } from 'node:test';
import { client, ended, GatewayBench, MCP } from '../../../test/support/gateway-bench.ts';
import { ANONYMOUS } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { errorAnswer, notification, result } from '../../protocol/compose.ts';
import { shapeFailure } from '../failure-shape.ts';

const OFFERS = {
  a: {
    resources: ['{"uri":"file:///x","name":"x"}', '{"uri":"conf://app","name":"c"}'],
    resourceTemplates: ['{"uriTemplate":"db://{t}","name":"t"}'],
    capabilities: { resources: { subscribe: true }, completions: {} },
  },
  b: { resources: ['{"uri":"conf://app","name":"c"}'] },
  c: { tools: [] },
};

function code(outcome: Outcome): string {
  assert.equal(outcome.kind, 'failure');
  return outcome.kind === 'failure' ? outcome.error.code : '';
}

function updated(uri: string) {
  return notification('notifications/resources/updated', JSON.stringify({ uri, more: 1 }), 'stateful');
}

test('check:D5 a read goes to the server that lists the URI, or whose template it fits', async () => {
  const bench = new GatewayBench(OFFERS);
  await bench.run('resources/read', '{"uri":"file:///x"}');
  await bench.run('resources/read', '{"uri":"db://users"}');
  assert.deepEqual(
    bench.upstreams.calls.map(({ server, request }) => [server, request.body.toString()]),
    [
      ['a', '{"uri":"file:///x"}'],
      ['a', '{"uri":"db://users"}'],
    ],
  );
});

test('check:D5 a URI of two servers is read under its wrapped form, and returns under it', async () => {
  const bench = new GatewayBench(OFFERS);
  bench.upstreams.respond = () =>
    answer(
      result('9', '{"contents":[{"uri":"conf://app","text":"1.0"},{"uri":"conf://app/part","text":""}]}', 'stateful'),
    );
  const outcome = await bench.run('resources/read', '{"uri":"trunkline://b/conf://app"}');
  assert.deepEqual(bench.upstreams.calls[0]!.server, 'b');
  assert.equal(bench.upstreams.calls[0]!.request.body.toString(), '{"uri":"conf://app"}');
  assert.deepEqual(ended(outcome), {
    contents: [
      { uri: 'trunkline://b/conf://app', text: '1.0' },
      { uri: 'conf://app/part', text: '' },
    ],
  });
  const bare = await bench.run('resources/read', '{"uri":"conf://app"}');
  assert.equal(code(bare), 'INVALID_PARAMS');
  assert.match((ended(bare) as GatewayError).message, /trunkline:\/\/a\/conf:\/\/app or trunkline:\/\/b\/conf:\/\/app/);
});

test('a URI that no server lists is tried at the servers with resources, in order, until one knows it', async () => {
  const bench = new GatewayBench(OFFERS);
  bench.upstreams.respond = ({ server, request }) =>
    server === 'a'
      ? answer(errorAnswer('1', -32002, 'no', null, request.era))
      : answer(result('1', '{"contents":[]}', request.era));
  assert.deepEqual(ended(await bench.run('resources/read', '{"uri":"odd://1"}')), { contents: [] });
  assert.deepEqual(
    bench.upstreams.calls.map(({ server }) => server),
    ['a', 'b'],
  );
});

test('when no server knows the URI, the error is the worst one: a server that could not be asked may have it', async () => {
  const bench = new GatewayBench(OFFERS);
  const absent = () => answer(errorAnswer('1', -32602, 'no such', null, 'stateful'));
  bench.upstreams.respond = absent;
  assert.deepEqual(ended(await bench.run('resources/read', '{"uri":"odd://1"}')), { code: -32602, message: 'no such' });
  bench.upstreams.respond = ({ server }) => (server === 'b' ? absent() : failure(new GatewayError('NOT_SENT', 'down')));
  assert.equal(code(await bench.run('resources/read', '{"uri":"odd://1"}')), 'NOT_SENT');
  const nothing = new GatewayBench({ c: { tools: [] } });
  assert.equal(code(await nothing.run('resources/read', '{"uri":"odd://1"}')), 'RESOURCE_NOT_FOUND');
});

test('completion of a template goes to its server', async () => {
  const bench = new GatewayBench(OFFERS);
  await bench.run(
    'completion/complete',
    '{"ref":{"type":"ref/resource","uri":"db://{t}"},"argument":{"name":"t","value":"u"}}',
  );
  assert.equal(bench.upstreams.calls[0]!.server, 'a');
  const none = await bench.run(
    'completion/complete',
    '{"ref":{"type":"ref/resource","uri":"trunkline://b/conf://app"}}',
  );
  assert.deepEqual(ended(none), { completion: { values: [], total: 0, hasMore: false } });
  assert.equal(code(await bench.run('completion/complete', '{"ref":{"type":"ref/nothing"}}')), 'INVALID_PARAMS');
});

test('a completion is refused like a read for a caller without the right, without revealing whether the template exists', async () => {
  const bench = new GatewayBench(OFFERS);
  const stranger = client('stateful', { principal: { ...ANONYMOUS, id: 'agent:x', servers: new Set(['b']) } });
  const refusals = new Map<string, string[]>();
  for (const uri of [
    'trunkline://a/db://{t}',
    'trunkline://a/none://{t}',
    'trunkline://none/db://{t}',
    'db://{t}',
    'none://{t}',
  ]) {
    const completing = JSON.stringify({ ref: { type: 'ref/resource', uri }, argument: { name: 't', value: 'u' } });
    const outcomes = [
      await bench.run('completion/complete', completing, { client: stranger }),
      await bench.run('resources/read', JSON.stringify({ uri }), { client: stranger }),
    ];
    // A URI that no server lists is requested from the servers that the caller may use.
    refusals.set(
      uri,
      outcomes.map((outcome) => (outcome.kind === 'answer' ? 'asked' : outcome.error.code)),
    );
  }
  assert.deepEqual(refusals.get('trunkline://a/db://{t}'), ['ACCESS_DENIED', 'ACCESS_DENIED']);
  for (const uri of ['trunkline://a/none://{t}', 'trunkline://none/db://{t}']) {
    assert.deepEqual(refusals.get(uri), refusals.get('trunkline://a/db://{t}'));
  }
  assert.deepEqual(refusals.get('db://{t}'), ['RESOURCE_NOT_FOUND', 'asked']);
  assert.deepEqual(refusals.get('none://{t}'), refusals.get('db://{t}'));
  assert.ok(bench.upstreams.calls.every(({ server }) => server === 'b'));
});

test('check:D5 updates reach only the session that subscribed, under the URI that it used', async () => {
  const bench = new GatewayBench(OFFERS);
  const one = client('stateful', { sessionId: 'one' });
  const two = client('stateful', { sessionId: 'two' });
  await bench.run('resources/subscribe', '{"uri":"trunkline://a/conf://app"}', { client: one });
  await bench.run('resources/subscribe', '{"uri":"trunkline://b/conf://app"}', { client: two });
  assert.equal(bench.upstreams.calls[0]!.request.body.toString(), '{"uri":"conf://app"}');
  // Over the session's own connection.
  bench.gateway.notification('a', 'one', updated('conf://app'));
  // Over a shared one.
  bench.gateway.notification('b', null, updated('conf://app'));
  bench.gateway.notification('b', null, updated('conf://else'));
  assert.deepEqual(
    bench.streams.delivered.map(({ sessionId, message }) => [sessionId, message.body.toString()]),
    [
      ['one', '{"uri":"trunkline://a/conf://app","more":1}'],
      ['two', '{"uri":"trunkline://b/conf://app","more":1}'],
    ],
  );
});

test('an unlisted URI is unsubscribed from at the server where the session is subscribed', async () => {
  const bench = new GatewayBench(OFFERS);
  bench.upstreams.respond = ({ server }) =>
    answer(server === 'b' ? result('9', '{}', 'stateful') : errorAnswer('9', -32002, 'no such', null, 'stateful'));
  await bench.run('resources/subscribe', '{"uri":"odd://1"}');
  // A server without such a subscription may answer an unsubscription with a result, too.
  bench.upstreams.respond = () => answer(result('9', '{}', 'stateful'));
  bench.upstreams.calls.length = 0;
  await bench.run('resources/unsubscribe', '{"uri":"odd://1"}');
  assert.deepEqual(
    bench.upstreams.calls.map(({ server, request }) => `${server} ${request.method}`),
    ['b resources/unsubscribe'],
  );
});

test('check:B13 sessions that share a connection share one subscription, which ends with the last of them', async () => {
  const bench = new GatewayBench(OFFERS);
  const one = client('stateful', { sessionId: 'one' });
  const two = client('stateful', { sessionId: 'two' });
  const params = '{"uri":"file:///x"}';
  await bench.run('resources/subscribe', params, { client: one });
  await bench.run('resources/subscribe', params, { client: two });
  await bench.run('resources/unsubscribe', params, { client: one });
  assert.equal(bench.upstreams.calls.length, 1);
  bench.gateway.notification('a', null, updated('file:///x'));
  assert.deepEqual(
    bench.streams.delivered.map(({ sessionId }) => sessionId),
    ['two'],
  );
  await bench.run('resources/unsubscribe', params, { client: two });
  assert.equal(bench.upstreams.calls[1]!.request.method, 'resources/unsubscribe');
});

test('the error for an unknown resource names it, in each era’s code', async () => {
  const bench = new GatewayBench({ c: { tools: [] } });
  for (const [era, expected] of [
    ['stateful', -32002],
    ['stateless', -32602],
  ] as const) {
    const exchange = bench.exchange('resources/read', '{"uri":"odd://1"}', { era });
    const outcome = await bench.gateway.run(exchange, MCP);
    assert.ok(outcome.kind === 'failure');
    const { error } = JSON.parse(shapeFailure(exchange.request, MCP, outcome.error).bytes.toString());
    assert.deepEqual(error, { code: expected, message: 'Resource not found: odd://1', data: { uri: 'odd://1' } });
  }
});

test('a server that is down is asked last for an unlisted URI', async () => {
  const bench = new GatewayBench(OFFERS);
  bench.upstreams.states.set('a', 'unreachable');
  assert.deepEqual(ended(await bench.run('resources/read', '{"uri":"odd://1"}')), { from: 'b' });
  assert.equal(bench.upstreams.calls.length, 1);
});
