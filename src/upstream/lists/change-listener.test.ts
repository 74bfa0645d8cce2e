import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  type Handler,
  Refusal,
  ScriptedServer,
  SILENCE,
  scriptedTool,
  statelessServer,
} from '../../../test/support/scripted-server.ts';
import { clientOf, httpServerOf, UpstreamBench } from '../../../test/support/upstream-bench.ts';

const client = clientOf(null);

function announcing(listen: Handler): ScriptedServer {
  const discovered = statelessServer()['server/discover']!;
  return new ScriptedServer({
    ...statelessServer(),
    'server/discover': (params, link, id) => ({
      ...(discovered(params, link, id) as object),
      capabilities: { tools: { listChanged: true }, prompts: {} },
    }),
    'prompts/list': () => ({ resultType: 'complete', prompts: [] }),
    'subscriptions/listen': listen,
  });
}

test('the gateway listens to a stateless server for changes of its lists, and lists it again on a change', async () => {
  const bench = new UpstreamBench();
  const script = announcing(() => SILENCE);
  await bench.run([httpServerOf('a'), script]);
  await bench.set.catalog('a', client, 1000);
  const listen = script.last.lastOf('subscriptions/listen');
  assert.deepEqual(listen.params?.['notifications'], { toolsListChanged: true });
  assert.ok(listen.params?._meta?.['io.modelcontextprotocol/protocolVersion']);
  script.handlers['tools/list'] = () => ({ resultType: 'complete', tools: [scriptedTool('new')] });
  const meta = { 'io.modelcontextprotocol/subscriptionId': listen.id };
  const changed = { jsonrpc: '2.0', method: 'notifications/tools/list_changed', params: { _meta: meta } };
  script.last.deliver(changed, listen.id as number);
  await bench.clock.advance(100);
  assert.deepEqual(bench.set.status('a')?.tools, ['new']);
  assert.deepEqual(bench.events.changed.at(-1)?.lists, ['tools']);
  assert.equal(script.last.count('subscriptions/listen'), 1);
  assert.deepEqual(
    bench.set.status('a')?.connections.map(({ state, inFlight }) => [state, inFlight]),
    [['idle', 0]],
  );
});

test('a broken stream is opened again and the lists are read again; a refused one is not', async () => {
  const bench = new UpstreamBench();
  const breaking = announcing((_params, link, id) => {
    if (link.count('subscriptions/listen') === 1) link.lose(id, 'UNKNOWN');
    return SILENCE;
  });
  const refusing = announcing(() => new Refusal(-32601, 'no'));
  await bench.run([httpServerOf('a'), breaking], [httpServerOf('b'), refusing]);
  await Promise.all(['a', 'b'].map((name) => bench.set.catalog(name, client, 1000)));
  await settled();
  const lists = breaking.last.count('tools/list');
  await bench.clock.advance(60_000);
  assert.equal(breaking.last.count('subscriptions/listen'), 2);
  assert.equal(breaking.last.count('tools/list'), lists + 1);
  assert.equal(refusing.last.count('subscriptions/listen'), 1);
});

test('check:G3 a broken stream is open again within about a second, and then the gateway looks for missed changes', async () => {
  const bench = new UpstreamBench();
  const script = announcing(() => SILENCE);
  await bench.run([httpServerOf('a'), script]);
  await bench.set.catalog('a', client, 1000);
  const lists = script.last.count('tools/list');
  script.last.lose(script.last.lastOf('subscriptions/listen').id as number, 'UNKNOWN');
  await settled();
  await bench.clock.advance(1_000);
  assert.equal(script.last.count('subscriptions/listen'), 2);
  assert.equal(script.last.count('tools/list'), lists, 'no list before the server acknowledges the stream');
  const { id } = script.last.lastOf('subscriptions/listen');
  const params = { notifications: {}, _meta: { 'io.modelcontextprotocol/subscriptionId': id } };
  script.last.deliver({ jsonrpc: '2.0', method: 'notifications/subscriptions/acknowledged', params }, id as number);
  await settled();
  assert.equal(script.last.count('tools/list'), lists + 1);
  await bench.clock.advance(10_000);
  assert.equal(script.last.count('tools/list'), lists + 1);
  assert.deepEqual(bench.events.connections.slice(-1), ['missed stateless shared']);
});

test('a broken stream is opened again after 0.5 s, and after twice as long each time that it soon breaks again', async () => {
  const bench = new UpstreamBench();
  const script = announcing(() => SILENCE);
  await bench.run([httpServerOf('a'), script]);
  await bench.set.catalog('a', client, 1000);
  const opened = () => script.last.count('subscriptions/listen');
  for (const [i, delayMs] of [500, 1_000, 2_000].entries()) {
    script.last.lose(script.last.lastOf('subscriptions/listen').id as number, 'UNKNOWN');
    await settled();
    await bench.clock.advance(delayMs - 1);
    assert.equal(opened(), i + 1, `${delayMs}`);
    await bench.clock.advance(1);
    assert.equal(opened(), i + 2, `${delayMs}`);
  }
});
