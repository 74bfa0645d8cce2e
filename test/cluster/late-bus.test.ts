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

test('fault:F28 a node that starts without NATS says at its page of the cluster what it lacks, until it has it', async () => {
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

    await nats.run();
    await until(async () => (await part('lease')).healthy, 'the lease');
    assert.match((await part('lease')).detail, /^renewed \d+ ms ago$/);
    await until(async () => (await part('store')).healthy, 'the store to be read');
  } finally {
    node.kill('SIGINT');
    await node.exited;
    await node.gateway.dispose();
  }
});
