import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ClusterBench,
  onNodes,
  type PlayedNode,
  remoteSpec,
  serverNamed,
  TestExchange,
} from '../../../test/support/cluster-bench.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';
import { serverCatalog, tool } from '../../../test/support/server-catalogs.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure } from '../../model/outcome.ts';
import type { ServerState, ServerStatus } from '../../model/server-state.ts';

const web = serverNamed('web', { transport: remoteSpec });

function isIn({ cluster, local }: PlayedNode, state: ServerState): void {
  const status = { name: 'web', state } as ServerStatus;
  local.states.set('web', status);
  cluster.events.statusChanged('web', status);
}

async function servedBy(nodes: ClusterBench, { cluster }: PlayedNode, session?: string): Promise<string> {
  const exchange = new TestExchange(session);
  const outcome = await nodes.until(cluster.upstreams.call('web', exchange.request, exchange));
  return outcome.kind === 'answer' ? outcome.message.body.toString() : outcome.error.message;
}

test('a server that this node cannot start is served by another instance, and here again as soon as it starts', () =>
  onNodes(async (nodes) => {
    const [a, b, c] = [await nodes.join('a', [web]), await nodes.join('b', [web]), await nodes.join('c', [web])];
    isIn(b, 'failed');
    isIn(c, 'running');
    await nodes.pass(1_000);
    assert.equal(await servedBy(nodes, a), '{"node":"a"}');
    // The first call fails to start the server.
    a.local.handle = ({ end }) => {
      a.local.failed.add('web');
      end(failure(new GatewayError('NOT_SENT', 'web could not be started')));
    };
    assert.equal(await servedBy(nodes, a), '{"node":"c"}');
    a.local.handle = null;
    for (let i = 0; i < 8; i++) assert.equal(await servedBy(nodes, a), '{"node":"c"}');
    // No instance runs the server: this node tries it, and may recover it.
    isIn(c, 'unreachable');
    await nodes.pass(1_000);
    assert.equal(await servedBy(nodes, a), '{"node":"a"}');
    isIn(c, 'connected');
    await nodes.pass(1_000);
    assert.equal(await servedBy(nodes, a), '{"node":"c"}');
    c.cluster.drain();
    await nodes.pass(100);
    assert.equal(await servedBy(nodes, a), '{"node":"a"}', 'a draining node receives no new calls');
    isIn(b, 'running');
    await nodes.pass(1_000);
    assert.equal(await servedBy(nodes, a), '{"node":"b"}');
    a.local.failed.clear();
    assert.equal(await servedBy(nodes, a), '{"node":"a"}');
  }));

test('fault:F28 while NATS is away a call of a server that failed here is tried here, since no other instance is reached', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [web]), await nodes.join('b', [web])];
    isIn(b, 'running');
    a.local.failed.add('web');
    await nodes.pass(1_000);
    assert.equal(await servedBy(nodes, a), '{"node":"b"}');
    a.cut();
    assert.equal(await servedBy(nodes, a), '{"node":"a"}');
    a.restore();
    await nodes.pass(1_000);
    assert.equal(await servedBy(nodes, a), '{"node":"b"}');
  }));

test('a node that cannot start a server that needs no owner redirects calls of other nodes to one where it runs', () =>
  onNodes(async (nodes) => {
    const [a, b, c] = [await nodes.join('a', [web]), await nodes.join('b', [web]), await nodes.join('c', [])];
    isIn(b, 'running');
    await nodes.pass(1_000);
    a.local.handle = ({ end }) => {
      a.local.failed.add('web');
      end(failure(new GatewayError('NOT_SENT', 'web could not be started')));
    };
    const sessions = Array.from({ length: 12 }, (_, i) => `s${i}`);
    for (const session of sessions) assert.equal(await servedBy(nodes, c, session), '{"node":"b"}');
    assert.ok(a.local.calls.length > 0);
  }));

test('a node that could never list a server shows the lists of an instance that runs it', () =>
  onNodes(async (nodes) => {
    const [a, b] = [await nodes.join('a', [web]), await nodes.join('b', [web])];
    isIn(b, 'running');
    b.local.catalogs.set('web', serverCatalog('web', { tools: [tool('one')] }));
    await nodes.pass(1_000);
    const listed = () => nodes.until(a.cluster.upstreams.catalog('web', clientOf('s'), 1_000));
    assert.equal(await listed(), null);
    a.local.failed.add('web');
    assert.deepEqual(
      (await listed())?.lists.tools.items?.map(({ key }) => key),
      ['one'],
    );
    assert.notEqual(a.cluster.upstreams.knownCatalog('web', clientOf('s')), null);
  }));
