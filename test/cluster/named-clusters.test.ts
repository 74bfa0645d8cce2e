import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect, headers } from '@nats-io/transport-node';
import { ToolCallError, ToolClient } from '../../src/client.ts';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, NodeProcess, until } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';

const KEY = 'key-of-agent-ann-0123';
const OTHER = 'the secret of another cluster, 32 bytes and more';
const cluster = (run: (nodes: ClusterProcesses) => Promise<void>) => onCluster(() => ClusterProcesses.start(), run);

async function names(node: NodeProcess): Promise<string[]> {
  const { nodes } = await node.control<{ nodes: { node: string }[] }>('/api/v1/nodes');
  return nodes.map(({ node: name }) => name).sort();
}

test('clusters of different names on one NATS account do not see each other, also with one secret', () =>
  cluster(async (nodes) => {
    const staging = { cluster: { name: 'staging' } };
    const servers = { counter: counterServer({ isolation: 'session' }) };
    const [a, b] = [await nodes.node('a', servers), await nodes.node('b', {})];
    const [c, d] = [await nodes.node('c', servers, staging), await nodes.node('d', {}, staging)];
    await until(async () => (await names(a)).length === 2 && (await names(c)).length === 2, 'nodes to meet');
    assert.deepEqual(
      [await names(b), await names(d)],
      [
        ['a', 'b'],
        ['c', 'd'],
      ],
    );
    for (const node of [b, d]) await callable(node, 'counter');
    const [one, two] = [await WireClient.open(a.serverUrl('counter')), await WireClient.open(c.serverUrl('counter'))];
    for (const [client, there] of [
      [one, b],
      [two, d],
    ] as const) {
      const again = new WireClient(there.serverUrl('counter'));
      again.sessionId = client.sessionId;
      assert.deepEqual([await client.callText('count'), await again.callText('count')], ['1', '2']);
    }
    const stranger = new WireClient(d.serverUrl('counter'));
    stranger.sessionId = one.sessionId;
    await until(async () => (await stranger.request('tools/list')).status === 404, 'the session to be unknown there');
    for (const { stderr } of [a, b, c, d]) assert.doesNotMatch(stderr, /bus_message_refused|node_without_lease/);
  }));

test('programs call tools of a named cluster on its own subjects, and not on those of the cluster without a name', () =>
  cluster(async (nodes) => {
    const settings = { agents: { ann: { key: KEY } }, cluster: { name: 'staging', publicSubjects: true } };
    await nodes.node('a', { counter: counterServer({ isolation: 'session' }) }, settings);
    const connection = await connect({ servers: nodes.nats.url });
    try {
      const lines = headers();
      lines.set('Trunkline-Key', KEY);
      const options = { sessionId: 's1', headers: lines, timeoutMs: 10_000 };
      const there = new ToolClient(connection, { ...options, cluster: 'staging' });
      assert.deepEqual(
        [(await there.call('counter', 'count')).result, (await there.tools('counter')).length > 0],
        ['1', true],
      );
      const elsewhere = await new ToolClient(connection, { ...options, timeoutMs: 300 })
        .call('counter', 'count')
        .catch((error: unknown) => error);
      assert.ok(elsewhere instanceof ToolCallError && elsewhere.outcome === 'NOT_SENT', String(elsewhere));
    } finally {
      await connection.close();
    }
  }));

test('a node with another secret is refused with TL1705, and starts under another name of the cluster', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', {});
    const { nats } = nodes;
    await assert.rejects(
      NodeProcess.start('b', {}, { cluster: { secret: OTHER } }, { nats: nats.url }),
      (error: Error) => {
        assert.match(error.message, /TL1705.*the running nodes of this cluster have another secret/s);
        assert.match(error.message, /fix: .*cluster\.secret.*cluster\.name/);
        assert.match(String(error.cause), /exited with 1/);
        return true;
      },
    );
    assert.doesNotMatch(a.stderr, /bus_message_refused/);
    const b = await nodes.node('b', {}, { cluster: { secret: OTHER, name: 'other' } });
    assert.deepEqual(await names(b), ['b']);
  }));

test('a node with another secret that started without NATS is not ready when NATS is there', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', {});
    await nodes.nats.kill();
    const b = await NodeProcess.start('b', {}, { cluster: { secret: OTHER } }, { nats: nodes.nats.url });
    nodes.nodes.push(b);
    await until(() => b.ready(), 'the node that started without NATS to be ready');
    await nodes.nats.run();
    await until(() => a.serves(), 'the node of the cluster to be back');
    await until(async () => !(await b.ready()), 'the node with the other secret to be refused');
    await until(() => /node_without_lease.*another secret/.test(b.stderr), 'its log to say why');
    assert.equal(await a.serves(), true);
  }));

test('when no node of a cluster is left, one with another secret takes it over', () =>
  cluster(async (nodes) => {
    const a = await nodes.node('a', { counter: counterServer() });
    a.kill('SIGTERM');
    assert.equal(await a.exited, 0);
    const b = await nodes.node('b', { counter: counterServer() }, { cluster: { secret: OTHER } });
    assert.match(b.stderr, /"event":"cluster_of_another_secret"/);
    await callable(b, 'counter');
    const client = await WireClient.open(b.serverUrl('counter'));
    assert.equal(await client.callText('count'), '1');
  }));
