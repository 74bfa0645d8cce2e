import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SECRET } from '../support/cluster-bench.ts';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';

const NEXT = 'the secret that comes after it, 32 bytes and more';

test('the secret is changed in three rounds of restarts: nodes believe each other, and nobody sees a conflict', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const servers = { counter: counterServer() };
      const steps: readonly object[] = [
        { secret: SECRET },
        { secret: SECRET, previousSecret: NEXT },
        { secret: NEXT, previousSecret: SECRET },
        { secret: NEXT },
      ];
      const start = (name: string, step: number) => nodes.node(name, servers, { cluster: steps[step]! });
      let members: NodeProcess[] = [await start('a', 0), await start('b', 0)];
      for (let step = 1; step < steps.length; step++) {
        for (const old of members) {
          old.kill('SIGTERM');
          assert.equal(await old.exited, 0);
          const next = await start(old.name, step);
          members = members.map((node) => (node === old ? next : node));
          for (const node of members) {
            await until(async () => {
              const { nodes: known } = await node.control<{ nodes: { state: string; servers: string[] }[] }>(
                '/api/v1/nodes',
              );
              return known.filter(({ state, servers: its }) => state === 'ready' && its.length === 1).length === 2;
            }, `${node.name} to believe the other one in step ${step}`);
            const { conflicts } = await node.control<{ conflicts: unknown[] }>('/api/v1/nodes');
            assert.deepEqual(conflicts, []);
            await callable(node, 'counter');
          }
          // A session of one node, used by way of the other: its process is found, whoever has which key.
          const opened = await WireClient.open(members[0]!.serverUrl('counter'));
          const there = new WireClient(members[1]!.serverUrl('counter'));
          there.sessionId = opened.sessionId;
          assert.deepEqual([await opened.callText('count'), await there.callText('count')], ['1', '2']);
        }
      }
      for (const { stderr } of nodes.nodes) assert.doesNotMatch(stderr, /definitions_conflict|bus_message_refused/);
    },
  ));
