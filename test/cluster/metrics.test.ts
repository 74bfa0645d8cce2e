import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callable, onCluster, ownerOf, type Who, wordOf } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, until } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';

test("a node's metrics have nodes, lease, what it owns, calls to other nodes, takeovers, and the bus", () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const servers = { counter: counterServer() };
      const a = await nodes.node('a', {});
      const instances = [await nodes.node('b', servers), await nodes.node('c', servers)];
      await callable(a, 'counter');
      const client = await WireClient.open(a.serverUrl('counter'));
      for (let i = 0; i < 3; i++) await client.callText('count');
      const before = JSON.parse(await client.callText('who')) as Who;
      const owner = await ownerOf(instances, before.pid);
      const other = instances.find((instance) => instance !== owner)!;

      await until(async () => (await a.metric('trunkline_cluster_nodes{state="ready"}')) === 3, 'three nodes');
      assert.ok((await a.metric('trunkline_cluster_calls_total{direction="out"}')) >= 4);
      assert.ok((await owner.metric('trunkline_cluster_calls_total{direction="in"}')) >= 4);
      assert.equal(await a.metric('trunkline_cluster_calls_total{direction="in"}'), 0);
      assert.ok((await owner.metric('trunkline_cluster_owned')) >= 1);
      await until(async () => (await a.metric('trunkline_cluster_lease_age_seconds')) < 2, 'a lease that is renewed');
      assert.equal(await a.metric('trunkline_bus_connected'), 1);
      assert.equal(await a.metric('trunkline_cluster_conflicts'), 0);
      for (const direction of ['in', 'out']) {
        assert.ok((await a.metric(`trunkline_bus_messages_total{direction="${direction}"}`)) > 0);
        assert.ok((await a.metric(`trunkline_bus_bytes_total{direction="${direction}"}`)) > 0);
      }
      assert.equal(await other.metric('trunkline_cluster_takeovers_total'), 0);

      owner.kill('SIGKILL');
      await until(async () => {
        const { message } = await client.request('tools/call', { name: 'who', arguments: {} });
        return wordOf(message) === 'RESULT';
      }, 'the session to go on');
      assert.equal(await other.metric('trunkline_cluster_takeovers_total'), 1);
      await until(
        async () => (await a.metric('trunkline_cluster_nodes{state="ready"}')) === 2,
        'the dead node to be gone',
      );

      await nodes.nats.kill();
      await until(async () => (await a.metric('trunkline_bus_connected')) === 0, 'the bus to be gone');
      await until(
        async () => (await a.metric('trunkline_cluster_nodes{state="fenced"}')) === 1,
        'the node to be fenced',
      );
      assert.ok(Number.isNaN(await a.metric('trunkline_cluster_lease_age_seconds')));
      await nodes.nats.run();
      await until(async () => (await a.metric('trunkline_bus_reconnects_total')) === 1, 'the bus to be back');
    },
  ));
