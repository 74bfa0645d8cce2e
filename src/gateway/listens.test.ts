import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../test/support/fake-clock.ts';
import {
  agent,
  type BenchExchange,
  client,
  endpointOf,
  GatewayBench,
  MCP,
  type RunOptions,
} from '../../test/support/gateway-bench.ts';
import { tool } from '../../test/support/server-catalogs.ts';
import type { Endpoint } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import { notification } from '../protocol/compose.ts';
import { scanMessage } from '../protocol/scan.ts';

const YOUNG = {
  era: 'stateless',
  resources: ['{"uri":"y://1","name":"y"}', '{"uri":"same://1","name":"s"}'],
  capabilities: { resources: { subscribe: true } },
} as const;
const OLD = {
  tools: [tool('a')],
  resources: ['{"uri":"o://1","name":"o"}', '{"uri":"same://1","name":"s"}'],
  capabilities: { tools: { listChanged: true }, prompts: {}, resources: { subscribe: true } },
};

interface Open {
  readonly exchange: BenchExchange;
  readonly outcome: Promise<Outcome>;
}

function listen(bench: GatewayBench, filter: object, endpoint: Endpoint = MCP, more: RunOptions = {}): Open {
  const params = JSON.stringify({ _meta: { 'x/y': 1 }, notifications: filter });
  const exchange = bench.exchange('subscriptions/listen', params, { era: 'stateless', ...more });
  return { exchange, outcome: bench.gateway.run(exchange, endpoint) };
}

function sent({ exchange }: Open): string[] {
  return exchange.emitted.map(({ method, body, era, bytes }) => {
    assert.equal(era, 'stateless');
    assert.ok(!('reason' in scanMessage(bytes, 'stateless', 'strict')));
    const { _meta, ...rest } = JSON.parse(body.toString());
    assert.equal(_meta['io.modelcontextprotocol/subscriptionId'], 'c1', 'tagged with the id of the listen');
    return `${method.replace('notifications/', '')} ${JSON.stringify(rest)}`;
  });
}

const NEVER = new Promise<Outcome>(() => {});

test('the acknowledgement comes first, names what is honoured, and every message is tagged', async () => {
  const bench = new GatewayBench({ old: OLD });
  const open = listen(bench, { toolsListChanged: true, promptsListChanged: false, odd: true });
  await settled();
  assert.deepEqual(sent(open), ['subscriptions/acknowledged {"notifications":{"toolsListChanged":true}}']);
  bench.relist('old', { ...OLD, tools: [tool('b')] }, ['tools']);
  bench.relist('old', { ...OLD, tools: [tool('c')] }, ['tools', 'prompts', 'resources']);
  await bench.clock.advance(100);
  assert.deepEqual(sent(open).slice(1), ['tools/list_changed {}']);
});

test('the aggregate acknowledges no lists that none of its servers has', async () => {
  const bench = new GatewayBench({ only: { tools: [tool('a')], capabilities: { tools: {} } } });
  const open = listen(bench, { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true });
  await settled();
  assert.deepEqual(sent(open), ['subscriptions/acknowledged {"notifications":{"toolsListChanged":true}}']);
});

/** Makes each notification take this long. */
function slow(bench: GatewayBench, { exchange }: Open, ms: number): void {
  const emit = exchange.emit.bind(exchange);
  exchange.emit = (message) => {
    emit(message);
    bench.clock.skip(ms);
  };
}

test('while a notification takes long to make, more changes are in the next one', async () => {
  const bench = new GatewayBench({ old: OLD });
  const open = listen(bench, { toolsListChanged: true });
  await settled();
  slow(bench, open, 20);
  for (const name of ['b', 'c', 'd', 'e']) {
    bench.relist('old', { ...OLD, tools: [tool(name)] }, ['tools']);
    await bench.clock.advance(100);
  }
  assert.equal(sent(open).length - 1, 1);
  await bench.clock.advance(600);
  assert.equal(sent(open).length - 1, 2);
  // A waiting notification is sent before the stream ends.
  bench.relist('old', { ...OLD, tools: [tool('f')] }, ['tools']);
  bench.gateway.drain();
  assert.equal(sent(open).length - 1, 3);
});

test('check:G3 a client that was notified of a changed list is not notified of the break after it, however long that waits', async () => {
  const bench = new GatewayBench({ old: OLD });
  const open = listen(bench, { toolsListChanged: true });
  await settled();
  slow(bench, open, 100);
  bench.relist('old', { ...OLD, tools: [tool('b')] }, ['tools']);
  await bench.clock.advance(200);
  bench.gateway.connectionChanged('old', bench.upstreams.sessionKey('old', open.exchange.client)!, 'missed');
  await bench.clock.advance(2_500);
  assert.equal(sent(open).length - 1, 1);
});

test('only callers with access to the server get its lists’ changes, and only those of changed lists', async () => {
  const bench = new GatewayBench({ old: OLD, more: { tools: [tool('m')] } });
  const flags = { toolsListChanged: true, resourcesListChanged: true };
  const ann = listen(bench, flags, MCP, { client: client('stateless', { principal: agent('ann', 'more') }) });
  const all = listen(bench, flags);
  await settled();
  bench.relist('old', { ...OLD, tools: [tool('b')] }, ['tools', 'resources']);
  await bench.clock.advance(100);
  assert.equal(sent(ann).length, 1);
  assert.deepEqual(sent(all).slice(1), ['tools/list_changed {}']);
});

test('a server’s own list_changed is passed on even if the list is equal, once per burst', async () => {
  const bench = new GatewayBench({ old: OLD, more: { tools: [tool('m')] } });
  const flags = { toolsListChanged: true, promptsListChanged: true };
  const [all, own] = [listen(bench, flags), listen(bench, flags, endpointOf('old'))];
  const ann = listen(bench, flags, MCP, { client: client('stateless', { principal: agent('ann', 'more') }) });
  await settled();
  const key = bench.upstreams.sessionKey('old', all.exchange.client)!;
  const said = ['notifications/tools/list_changed', 'notifications/prompts/list_changed'];
  for (let i = 0; i < 5; i++) bench.gateway.listsAnnounced('old', key, said);
  bench.gateway.listsAnnounced('old', 'key of another connection', said);
  await bench.clock.advance(100);
  // This server does not declare listChanged for prompts.
  for (const listening of [all, own]) assert.deepEqual(sent(listening).slice(1), ['tools/list_changed {}']);
  assert.equal(sent(ann).length, 1, 'may not use it');
  bench.relist('old', { ...OLD, tools: [tool('b')] }, ['tools']);
  bench.gateway.listsAnnounced('old', key, said);
  await bench.clock.advance(100);
  assert.equal(sent(all).length, 3, 'a list that did change is announced once too');
});

test('check:G3 a client that was notified of a changed list is not notified of the break before it as well', async () => {
  const bench = new GatewayBench({ old: OLD });
  const open = listen(bench, { toolsListChanged: true });
  await settled();
  const key = bench.upstreams.sessionKey('old', open.exchange.client)!;
  const broken = async (change: 'renewed' | 'missed'): Promise<number> => {
    bench.gateway.connectionChanged('old', key, change);
    await bench.clock.advance(100);
    return sent(open).length - 1;
  };
  bench.relist('old', { ...OLD, tools: [tool('b')] }, ['tools']);
  await bench.clock.advance(100);
  assert.equal(await broken('renewed'), 1);
  assert.equal(await broken('missed'), 1);
  bench.relist('old', { ...OLD, tools: [tool('c')] }, ['tools']);
  await bench.clock.advance(100);
  assert.equal(await broken('missed'), 2, 'a later change is notified, the break after it is not');
  await bench.clock.advance(2_000);
  assert.equal(await broken('missed'), 3, 'a later break is notified');
});

test('check:G3 a client that listens here and may ask elsewhere is notified once more when another node has new lists too', async () => {
  const bench = new GatewayBench({ old: OLD, more: { tools: [tool('m')] } });
  const flags = { toolsListChanged: true, resourcesListChanged: true };
  const [all, ann] = [
    listen(bench, flags),
    listen(bench, flags, MCP, { client: client('stateless', { principal: agent('ann', 'more') }) }),
  ];
  await settled();
  const elsewhere = async (server: string): Promise<void> => {
    bench.gateway.listedElsewhere(server);
    await bench.clock.advance(100);
  };
  await elsewhere('old');
  assert.equal(sent(all).length, 1, 'nothing has changed here');
  bench.relist('old', { ...OLD, tools: [tool('b')] }, ['tools']);
  await bench.clock.advance(100);
  await elsewhere('old');
  await elsewhere('more');
  assert.deepEqual(sent(all).slice(1), ['tools/list_changed {}', 'tools/list_changed {}']);
  assert.equal(sent(ann).length, 1, 'may not use it');
  await bench.clock.advance(12_000);
  await elsewhere('old');
  assert.equal(sent(all).length, 3, 'after 12 s no notification is sent');
});

test('on a stateful server’s own endpoint only what it declares is honoured', async () => {
  const bench = new GatewayBench({ old: OLD });
  const open = listen(bench, { toolsListChanged: true, promptsListChanged: true }, endpointOf('old'));
  await settled();
  assert.deepEqual(sent(open), ['subscriptions/acknowledged {"notifications":{"toolsListChanged":true}}']);
  bench.relist('old', OLD, ['tools', 'prompts']);
  await bench.clock.advance(100);
  assert.deepEqual(sent(open).slice(1), ['tools/list_changed {}']);
});

test('one listen at each stateless server relays resources, under the client’s own URIs and id', async () => {
  const bench = new GatewayBench({ old: OLD, young: YOUNG });
  bench.upstreams.respond = () => NEVER;
  const open = listen(bench, { resourceSubscriptions: ['y://1', 'trunkline://young/same://1', 'gone://1'] });
  await settled();
  const [call] = bench.upstreams.calls;
  assert.equal(call!.server, 'young');
  assert.equal(call!.request.body.toString(), '{"notifications":{"resourceSubscriptions":["y://1","same://1"]}}');
  assert.deepEqual(sent(open), []);
  // Early updates wait for the acknowledgement.
  call!.exchange.emit(notification('notifications/resources/updated', '{"uri":"same://1","n":1.0}', 'stateless'));
  const ack = '{"notifications":{"resourceSubscriptions":["y://1","same://1"]}}';
  call!.exchange.emit(notification('notifications/subscriptions/acknowledged', ack, 'stateless'));
  await settled();
  assert.deepEqual(sent(open), [
    'subscriptions/acknowledged {"notifications":{"resourceSubscriptions":["y://1","trunkline://young/same://1"]}}',
    'resources/updated {"uri":"trunkline://young/same://1","n":1}',
  ]);
  assert.match(open.exchange.emitted[1]!.bytes.toString(), /"n":1\.0/);
  open.exchange.cancel('gone');
  assert.equal((call!.exchange as { cancelled: string | null }).cancelled, 'the subscription has ended');
});

test('a flood before the acknowledgement is reduced: each honoured item is reported once', async () => {
  for (const [count, padding] of [
    [300, ''],
    [3, 'x'.repeat(100_000)],
  ] as const) {
    const bench = new GatewayBench({ old: OLD, young: YOUNG });
    bench.upstreams.respond = () => NEVER;
    const uris = ['y://1', 'trunkline://young/same://1', 'gone://1'];
    const open = listen(bench, { toolsListChanged: true, resourceSubscriptions: uris });
    await settled();
    const [call] = bench.upstreams.calls;
    const update = JSON.stringify({ uri: 'y://1', padding });
    for (let i = 0; i < count; i++) {
      call!.exchange.emit(notification('notifications/resources/updated', update, 'stateless'));
    }
    const ack = '{"notifications":{"resourceSubscriptions":["y://1","same://1"]}}';
    call!.exchange.emit(notification('notifications/subscriptions/acknowledged', ack, 'stateless'));
    await settled();
    assert.deepEqual(sent(open).slice(1), [
      'tools/list_changed {}',
      'resources/updated {"uri":"y://1"}',
      'resources/updated {"uri":"trunkline://young/same://1"}',
    ]);
    open.exchange.cancel('gone');
  }
});

test('a relay that breaks is opened again with growing pauses, as long as the client listens', async () => {
  const bench = new GatewayBench({ young: YOUNG });
  bench.upstreams.respond = () => failure(new GatewayError('UNKNOWN', 'broken'));
  const open = listen(bench, { resourceSubscriptions: ['y://1'] });
  await settled();
  await bench.clock.advance(999);
  assert.equal(bench.upstreams.calls.length, 1);
  await bench.clock.advance(1);
  assert.equal(bench.upstreams.calls.length, 2);
  await bench.clock.advance(1_999);
  assert.equal(bench.upstreams.calls.length, 2);
  await bench.clock.advance(1);
  assert.equal(bench.upstreams.calls.length, 3);
  // By then the client has an acknowledgement of what it requested.
  assert.match(sent(open)[0]!, /y:\/\/1/);
  open.exchange.cancel('gone');
  await bench.clock.advance(100_000);
  assert.equal(bench.upstreams.calls.length, 3);
  assert.equal(bench.clock.pending, 0);
});

test('resources of stateful servers are subscribed to once and released with the last listener', async () => {
  const bench = new GatewayBench({ old: OLD });
  const one = listen(bench, { resourceSubscriptions: ['o://1'] });
  const two = listen(bench, { resourceSubscriptions: ['trunkline://old/o://1'] });
  await settled();
  assert.deepEqual(
    bench.upstreams.calls.map(({ request }) => [request.method, request.body.toString(), request.era]),
    [['resources/subscribe', '{"uri":"o://1"}', 'stateful']],
  );
  bench.gateway.notification(
    'old',
    null,
    notification('notifications/resources/updated', '{"uri":"o://1"}', 'stateful'),
  );
  assert.equal(sent(one)[1], 'resources/updated {"uri":"o://1"}');
  assert.equal(sent(two)[1], 'resources/updated {"uri":"trunkline://old/o://1"}');
  one.exchange.cancel('gone');
  assert.equal(bench.upstreams.calls.length, 1);
  two.exchange.cancel('gone');
  await settled();
  assert.equal(bench.upstreams.calls[1]!.request.method, 'resources/unsubscribe');
});

test('check:D11 on a stateless server’s own endpoint the listen passes through whole, and outlives a break', async () => {
  const bench = new GatewayBench({ young: YOUNG });
  let lose: (outcome: Outcome) => void = () => {};
  bench.upstreams.respond = () =>
    new Promise((resolve) => {
      lose = resolve;
    });
  const open = listen(bench, { resourcesListChanged: true, vendorThing: { a: 1 } }, endpointOf('young'));
  await settled();
  const first = bench.upstreams.calls[0]!;
  assert.equal(first.request, open.exchange.request);
  const ack = notification(
    'notifications/subscriptions/acknowledged',
    '{"notifications":{"resourcesListChanged":true,"vendorThing":1}}',
    'stateless',
  );
  first.exchange.emit(ack);
  first.exchange.emit(notification('notifications/vendor', '{"x":1}', 'stateless'));
  lose(failure(new GatewayError('UNKNOWN', 'broken')));
  await settled();
  await bench.clock.advance(1_000);
  bench.upstreams.calls[1]!.exchange.emit(ack);
  // A change that the gateway itself detects is notified once.
  bench.relist('young', YOUNG, ['resources']);
  await bench.clock.advance(100);
  assert.deepEqual(sent(open), [
    'subscriptions/acknowledged {"notifications":{"resourcesListChanged":true,"vendorThing":1}}',
    'vendor {"x":1}',
    'resources/list_changed {}',
  ]);
});

test('a drain ends every listen with a complete result, and later ones too', async () => {
  const bench = new GatewayBench({ old: OLD });
  const open = listen(bench, { toolsListChanged: true });
  await settled();
  bench.gateway.drain();
  const late = listen(bench, { toolsListChanged: true });
  for (const { outcome } of [open, late]) {
    const end = await outcome;
    assert.equal(end.kind, 'answer');
    assert.equal(
      end.kind === 'answer' ? end.message.body.toString() : '',
      '{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"c1"}}',
    );
  }
});

test('a listen that the client ends stops, and nothing more is sent on it', async () => {
  const bench = new GatewayBench({ old: OLD });
  const open = listen(bench, { toolsListChanged: true });
  await settled();
  open.exchange.cancel('closed the stream');
  const end = await open.outcome;
  assert.ok(end.kind === 'failure' && end.error.code === 'CANCELLED');
  bench.relist('old', { ...OLD, tools: [] }, ['tools']);
  await bench.clock.advance(100);
  assert.equal(open.exchange.emitted.length, 1);
});

test('a listen may name 1,000 resources and tasks, those of one principal 65,536; others are not affected', async () => {
  const bench = new GatewayBench({ old: { tools: [] } });
  const refused = async (open: Open) => {
    const end = await Promise.race([open.outcome, settled().then(() => null)]);
    return end !== null && end.kind === 'failure' ? end.error.code : null;
  };
  const uris = Array.from({ length: 1_000 }, (_, i) => `u://${i}`);
  assert.equal(await refused(listen(bench, { resourceSubscriptions: [...uris, 'u://more'] })), 'OVERLOADED');
  const takesTasks = '{"extensions":{"io.modelcontextprotocol/tasks":{}}}';
  const taking = client('stateless', { principal: agent('taker', 'old'), capabilities: takesTasks });
  const both = { resourceSubscriptions: uris, taskIds: ['t'] };
  assert.equal(await refused(listen(bench, both, MCP, { client: taking })), 'OVERLOADED');
  const open: Open[] = [];
  for (let i = 0; i < 65; i++) open.push(listen(bench, { resourceSubscriptions: uris }));
  await settled();
  assert.equal(await refused(listen(bench, { resourceSubscriptions: uris })), 'OVERLOADED');
  const other = client('stateless', { principal: agent('other', 'old') });
  assert.equal(await refused(listen(bench, { resourceSubscriptions: uris }, MCP, { client: other })), null);
  open[0]!.exchange.cancel('gone');
  assert.equal(await refused(listen(bench, { resourceSubscriptions: uris })), null);
});

test('an invalid filter is refused', async () => {
  const bench = new GatewayBench({ old: OLD });
  for (const params of ['{}', '{"notifications":[]}', '{"notifications":{"resourceSubscriptions":[1]}}']) {
    const outcome = await bench.run('subscriptions/listen', params, { era: 'stateless' });
    assert.ok(outcome.kind === 'failure' && outcome.error.code === 'INVALID_PARAMS');
  }
});

test('a listen whose relays fail by a defect gets an error, and leaves nothing open', async () => {
  const bench = new GatewayBench({ young: YOUNG });
  bench.upstreams.call = () => {
    throw new Error('a defect');
  };
  const { outcome } = listen(bench, { resourceSubscriptions: ['y://1'] });
  const ended = await outcome;
  assert.equal(ended.kind === 'failure' ? ended.error.code : ended.kind, 'INTERNAL');
});
