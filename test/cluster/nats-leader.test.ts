import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { measured } from '../faults/measured.ts';
import { callable, type Who, wordOf } from '../support/cluster-facts.ts';
import { counterServer, NodeProcess, until } from '../support/cluster-processes.ts';
import { eventually, NatsCluster } from '../support/nats-cluster.ts';
import type { NatsServer } from '../support/nats-server.ts';
import { WireClient } from '../support/wire-client.ts';

/** For as long as the slowest election that was seen. */
const WATCHED_MS = 10_000;
const BACK_MS = 3_000;

/** The server that leads the stream of the leases, which must have three copies. */
async function leader(nats: NatsCluster): Promise<NatsServer> {
  const connection = await connect({ servers: nats.servers.map(({ url }) => url) });
  try {
    const manager = await jetstreamManager(connection);
    return await eventually(async () => {
      const { cluster, config } = await manager.streams.info('KV_trunkline_leases');
      assert.equal(config.num_replicas, 3);
      assert.ok(cluster?.replicas?.every(({ current }) => current) === true && cluster.leader !== undefined);
      return nats.servers[Number(cluster.leader.slice(1))]!;
    });
  } finally {
    await connection.close();
  }
}

for (const disk of ['kept', 'lost'] as const) {
  test(`fault:F28 of three NATS servers the one that leads the leases is killed, its disk ${disk}: nodes stay in service, calls without a lease succeed, others are NOT_SENT until an election`, {
    timeout: 240_000,
  }, async (t) => {
    await using nats = await NatsCluster.of('nats-server', 3);
    const nodes: NodeProcess[] = [];
    try {
      const urls = nats.servers.map(({ url }) => url);
      const servers = { own: counterServer(), shared: counterServer({ isolation: 'shared' }) };
      for (const name of ['a', 'b']) {
        nodes.push(await NodeProcess.start(name, servers, { cluster: { nats: urls } }, { nats: urls[0]! }));
      }
      const [a, b] = nodes as [NodeProcess, NodeProcess];
      for (const node of nodes) {
        await until(() => node.serves(), `${node.name} to have its lease`);
        await callable(node, 'own', 'shared');
      }
      const own = await WireClient.open(a.serverUrl('own'));
      const shared = await Promise.all(nodes.map((node) => WireClient.open(node.serverUrl('shared'))));
      const before = JSON.parse(await own.callText('who')) as Who;
      for (const client of shared) await client.callText('count');

      const killed = await leader(nats);
      const at = performance.now();
      await killed.kill();
      let [failedFrom, failedUntil, noneReady] = [0, 0, 0];
      const wrong: string[] = [];
      let returned: Promise<void> | null = null;
      while (performance.now() - at < WATCHED_MS) {
        if (performance.now() - at > BACK_MS) {
          if (returned === null && disk === 'lost') killed.forget();
          returned ??= killed.run();
        }
        const ready = await Promise.all(nodes.map((node) => node.ready()));
        if (!ready.includes(true)) noneReady++;
        const call = { name: 'who', arguments: {} };
        for (const client of shared) {
          const { message } = await client.request('tools/call', call);
          if (wordOf(message) !== 'RESULT') wrong.push(`shared: ${JSON.stringify(message)}`);
        }
        const { message } = await own.request('tools/call', call);
        const word = wordOf(message);
        if (word !== 'RESULT') {
          failedFrom ||= performance.now();
          failedUntil = performance.now();
          if (word !== 'NOT_SENT' || message.error.data.retryable !== true)
            wrong.push(`own: ${JSON.stringify(message)}`);
        }
      }
      await returned;
      await until(async () => (await a.serves()) && (await b.serves()), 'the nodes to have their leases again');
      const after = JSON.parse(await own.callText('who')) as Who;
      assert.deepEqual(wrong, []);
      assert.equal(noneReady, 0, 'looks of a balancer that found no node');
      assert.equal(after.pid, before.pid, 'the process is used again');
      measured(t, 'F28', `calls that need a lease fail, disk ${disk}`, failedUntil - failedFrom, 'ms', null);
    } catch (error) {
      for (const { name, stderr } of nodes) console.error(`--- ${name}\n${stderr.slice(-4_000)}`);
      throw error;
    } finally {
      for (const node of nodes) {
        node.kill('SIGKILL');
        await node.exited;
        await node.gateway.dispose();
      }
    }
  });
}
