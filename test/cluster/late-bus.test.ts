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

test('fault:F28 a node that starts without NATS reports it, restarts no server that would stay down, and starts servers that lacked a lease when it has one', async () => {
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
    const pidOf = async (): Promise<number | null> => {
      const { connections } = await node.control<{ connections: { pid: number | null }[] }>('/api/v1/servers/own');
      return connections[0]?.pid ?? null;
    };
    const before = await own();
    assert.deepEqual([before.state, before.consecutiveFailures], ['failed', 0]);
    // A restarted process would stay down: the node restarts nothing and answers 503.
    const restart = (server: string) => node.control(`/api/v1/servers/${server}/restart`, 'POST');
    await assert.rejects(restart('own'), /503.*nothing was restarted/);
    await assert.rejects(restart('all'), /503.*at other nodes: not restarted/);
    await nats.run();
    await until(async () => (await part('lease')).healthy, 'the lease');
    const heldAt = performance.now();
    assert.match((await part('lease')).detail, /^renewed \d+ ms ago$/);
    await callable(node, 'own');
    assert.ok(performance.now() - heldAt < 5_000, 'it runs soon after the lease is held');
    await nats.kill();
    await until(async () => !(await part('bus')).healthy, 'the loss of NATS to be noticed');
    const pid = await pidOf();
    await assert.rejects(restart('own'), /503.*nothing was restarted/);
    assert.equal(await pidOf(), pid);
    await nats.run();
    for (const name of ['bus', 'lease']) await until(async () => (await part(name)).healthy, `the ${name} again`);
    await restart('own');
    assert.notEqual(await pidOf(), pid);
    await until(async () => (await part('store')).healthy, 'the store to be read');
  } finally {
    node.kill('SIGINT');
    await node.exited;
    await node.gateway.dispose();
  }
});
