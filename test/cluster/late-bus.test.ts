import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callable } from '../support/cluster-facts.ts';
import { counterServer, NodeProcess, until } from '../support/cluster-processes.ts';
import { NatsServer } from '../support/nats-server.ts';

interface Part {
  readonly part: string;
  readonly healthy: boolean;
  readonly detail: string;
}

test('fault:F28 a node that starts without NATS says so at its page of the cluster, and starts what needs its lease when it has that', async () => {
  await using nats = await NatsServer.start();
  await nats.kill();
  const servers = { own: counterServer({ isolation: 'session' }), all: counterServer({ isolation: 'shared' }) };
  const node = await NodeProcess.start('a', servers, {}, { nats: nats.url });
  try {
    await callable(node, 'all');
    const part = async (name: string): Promise<Part> => {
      const { shared } = await node.control<{ shared: Part[] }>('/api/v1/nodes');
      return shared.find((one) => one.part === name)!;
    };
    const lease = await part('lease');
    assert.equal(lease.healthy, false);
    assert.match(lease.detail, /not joined its cluster/);
    await until(async () => !(await part('store')).healthy, 'the store to be shown as unread');
    assert.match((await part('store')).detail, /cannot be read/);

    const own = () => node.control<{ state: string; consecutiveFailures: number }>('/api/v1/servers/own');
    const before = await own();
    assert.deepEqual([before.state, before.consecutiveFailures], ['failed', 0]);
    await nats.run();
    await until(async () => (await part('lease')).healthy, 'the lease');
    const heldAt = performance.now();
    assert.match((await part('lease')).detail, /^renewed \d+ ms ago$/);
    await callable(node, 'own');
    assert.ok(performance.now() - heldAt < 5_000, 'it runs soon after the lease is held');
    await until(async () => (await part('store')).healthy, 'the store to be read');
  } finally {
    node.kill('SIGINT');
    await node.exited;
    await node.gateway.dispose();
  }
});
