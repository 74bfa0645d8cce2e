import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../test/support/fake-clock.ts';
import {
  Refusal,
  ScriptedServer,
  SILENCE,
  scriptedTool,
  statefulScript,
  statelessServer,
} from '../../../test/support/scripted-server.ts';
import { clientOf, httpServerOf, UpstreamBench } from '../../../test/support/upstream-bench.ts';

const client = clientOf('s');
const asked = (script: ScriptedServer) => script.links.reduce((sum, link) => sum + link.count('tools/list'), 0);

test('check:G3 the node reads lists that another node reported as changed, at most once a second', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a'), script]);
  await bench.set.catalog('a', client, 1000);
  script.handlers['tools/list'] = () => ({ tools: [scriptedTool('new')] });
  const before = asked(script);
  for (let i = 0; i < 5; i++) bench.set.relist('a');
  await bench.clock.advance(0);
  await settled();
  assert.equal(asked(script), before + 1);
  assert.deepEqual(bench.set.status('a')?.tools, ['new']);
  assert.deepEqual(bench.events.changed.at(-1)?.lists, ['tools']);
  for (let i = 0; i < 5; i++) bench.set.relist('a');
  await bench.clock.advance(999);
  assert.equal(asked(script), before + 1);
  await bench.clock.advance(1);
  await settled();
  assert.equal(asked(script), before + 2);
  assert.deepEqual(bench.events.relistings, [], 'a change from another node is not reported again');
});

test('a server’s own list_changed is passed on once the new lists are known', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a'), script]);
  await bench.set.catalog('a', client, 1000);
  script.last.deliver({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
  await bench.clock.advance(100);
  await settled();
  assert.deepEqual(bench.events.relistings, ['a']);
});

test('a change reported by another node does not start a server that is down', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a'), script]);
  bench.set.relist('a');
  bench.set.relist('nobody');
  await bench.clock.advance(2_000);
  assert.equal(script.links.length, 0);
});

test('the node ignores reports of other nodes about changes that the server reports to it', async () => {
  const bench = new UpstreamBench();
  const discovered = statelessServer()['server/discover']!;
  const script = new ScriptedServer({
    ...statelessServer(),
    'server/discover': (params, link, id) => ({
      ...(discovered(params, link, id) as object),
      capabilities: { tools: { listChanged: true } },
    }),
    'subscriptions/listen': () => SILENCE,
  });
  await bench.run([httpServerOf('a'), script]);
  await bench.set.catalog('a', clientOf(null), 1000);
  await settled();
  const before = asked(script);
  bench.set.relist('a');
  await bench.clock.advance(2_000);
  assert.equal(asked(script), before);
});

test('the node reads lists that another node reported as changed if the server refuses to notify this node', async () => {
  const bench = new UpstreamBench();
  const discovered = statelessServer()['server/discover']!;
  const script = new ScriptedServer({
    ...statelessServer(),
    'server/discover': (params, link, id) => ({
      ...(discovered(params, link, id) as object),
      capabilities: { tools: { listChanged: true } },
    }),
    'subscriptions/listen': () => new Refusal(-32600, 'one listener is enough'),
  });
  await bench.run([httpServerOf('a'), script]);
  await bench.set.catalog('a', clientOf(null), 1000);
  await settled();
  const before = asked(script);
  bench.set.relist('a');
  await bench.clock.advance(2_000);
  await settled();
  assert.equal(asked(script), before + 1);
});

test('a wait for a change reported by another node ends when the server is removed', async () => {
  const bench = new UpstreamBench();
  const script = statefulScript();
  await bench.run([httpServerOf('a'), script]);
  await bench.set.catalog('a', client, 1000);
  void bench.set.relist('a');
  await bench.clock.advance(0);
  let waited = false;
  void bench.set.relist('a').then(() => {
    waited = true;
  });
  void bench.set.apply(new Map());
  await bench.clock.advance(100);
  await settled();
  assert.ok(waited);
});
