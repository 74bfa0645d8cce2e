import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callable, onCluster, wordOf } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';

interface Shown {
  readonly servers: readonly { readonly name: string; readonly state: string; readonly reason: string | null }[];
}

const alone = (node: NodeProcess) =>
  until(async () => {
    const { nodes } = await node.control<{ nodes: unknown[] }>('/api/v1/nodes');
    return nodes.length === 1;
  }, `${node.name} to be alone`);

test('fault:F30 fault:F31 a session stays known while the only node with its server is silent, or restarts', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const a = await nodes.node('a', {});
      const b = await nodes.node('b', { counter: counterServer() });
      await callable(a, 'counter');
      const client = await WireClient.open(a.serverUrl('counter'));
      const everything = await WireClient.open(a.mcpUrl);
      const tools = await client.toolNames();
      assert.equal(await client.callText('count'), '1');
      const all = await everything.toolNames();
      assert.ok(all.includes('counter__count'));

      b.kill('SIGSTOP');
      await alone(a);
      assert.equal((await client.request('ping')).status, 200);
      assert.deepEqual([await client.toolNames(), await everything.toolNames()], [tools, all]);
      for (const [at, name] of [
        [client, 'count'],
        [everything, 'counter__count'],
      ] as const) {
        const { message } = await at.request('tools/call', { name, arguments: {} });
        assert.equal(wordOf(message), 'NOT_SENT');
        assert.match(JSON.stringify(message), /node b, which has it, does not answer/);
      }
      const [counter] = (await a.control<Shown>('/api/v1/servers')).servers;
      assert.deepEqual([counter?.name, counter?.state], ['counter', 'unreachable']);
      const why = /^node b, which has it, does not answer; it was seen last at \S+Z: check .*forgotten at \S+Z$/;
      assert.match(counter?.reason ?? '', why);
      b.kill('SIGCONT');
      await callable(a, 'counter');
      assert.match(await client.callText('count'), /^\d$/);

      b.kill('SIGTERM');
      await b.exited;
      await alone(a);
      const { message, status } = await client.request('tools/call', { name: 'count', arguments: {} });
      assert.notEqual(status, 404);
      assert.equal(wordOf(message), 'NOT_SENT');
      assert.match(JSON.stringify(message), /node b, which has it, has left/);
      const again = await nodes.node('b', { counter: counterServer() }, {}, { folder: b.gateway.folder });
      await callable(a, 'counter');
      assert.match(await client.callText('count'), /^\d$/);

      again.kill('SIGTERM');
      await again.exited;
      await nodes.node('b', { other: counterServer() }, {}, { folder: b.gateway.folder });
      await callable(a, 'other');
      assert.equal((await client.request('ping')).status, 404, 'its node has dropped the server');
      assert.ok(!(await everything.toolNames()).some((name) => name.startsWith('counter__')));
    },
  ));
