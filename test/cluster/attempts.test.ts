import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses } from '../support/cluster-processes.ts';
import { manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';
import { WireClient } from '../support/wire-client.ts';

test('the node of the client knows the attempts that its call had at another node', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const a = await nodes.node('a', {});
      await nodes.node('b', { dies: manySided('dies', {}, { retry: 'always' }) });
      await callable(a, 'dies');
      const client = await WireClient.open(a.serverUrl('dies'));
      const { pid } = JSON.parse(await client.callText('who'));
      const slept = client.callText('sleep', { ms: 500 });
      await new Promise((done) => setTimeout(done, 300));
      process.kill(pid, 'SIGKILL');
      assert.equal(await slept, 'slept');
      const [call] = (await a.control<{ calls: Json[] }>('/api/v1/calls?filter=tool:sleep')).calls;
      const [failed, last] = call!['attempts'];
      assert.deepEqual([call!['tries'], call!['servedBy'], call!['attempts'].length], [2, 'b', 2]);
      assert.deepEqual([failed.node, failed.outcome, failed.pid], ['b', 'UNKNOWN', pid]);
      assert.match(failed.reason, /ended by SIGKILL/);
      assert.deepEqual([last.node, last.outcome], ['b', 'RESULT']);
      assert.equal(last.pid, JSON.parse(await client.callText('who')).pid);
      const [failedAt, lastAt] = [failed.atMs + failed.ms, last.atMs + last.ms];
      assert.ok(failed.ms >= 200 && failedAt <= last.atMs + 1 && lastAt <= call!['ms'] + 5, JSON.stringify(call));
      const { calls } = await a.control<{ calls: Json[] }>('/api/v1/calls?filter=tool:who');
      assert.deepEqual(
        calls.map((one) => [one['tries'], 'attempts' in one]),
        [
          [1, false],
          [1, false],
        ],
      );
    },
  ));
