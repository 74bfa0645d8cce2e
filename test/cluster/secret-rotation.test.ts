import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CountingSessions } from '../fixtures/http/counting-sessions.ts';
import { TaskServer } from '../fixtures/tasks/http.ts';
import { SECRET } from '../support/cluster-bench.ts';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import { TaskClient } from '../support/task-client.ts';
import { WireClient } from '../support/wire-client.ts';

const NEXT = 'the secret that comes after it, 32 bytes and more';

const STEPS: readonly object[] = [
  { secret: SECRET },
  { secret: SECRET, previousSecret: NEXT },
  { secret: NEXT, previousSecret: SECRET },
  { secret: NEXT },
];

/** Stops the node and starts another one of its name. */
async function again(old: NodeProcess, start: () => Promise<NodeProcess>): Promise<NodeProcess> {
  old.kill('SIGTERM');
  assert.equal(await old.exited, 0);
  return start();
}

test('the secret changes in three rounds of restarts: nodes trust each other, and no conflict appears', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const servers = { counter: counterServer() };
      const start = (name: string, step: number) => nodes.node(name, servers, { cluster: STEPS[step]! });
      let members: NodeProcess[] = [await start('a', 0), await start('b', 0)];
      for (let step = 1; step < STEPS.length; step++) {
        for (const old of members) {
          const next = await again(old, () => start(old.name, step));
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
          // A session of one node, used by way of the other: its process is found with any keys of the nodes.
          const opened = await WireClient.open(members[0]!.serverUrl('counter'));
          const there = new WireClient(members[1]!.serverUrl('counter'));
          there.sessionId = opened.sessionId;
          assert.deepEqual([await opened.callText('count'), await there.callText('count')], ['1', '2']);
        }
      }
      for (const { stderr } of nodes.nodes) assert.doesNotMatch(stderr, /definitions_conflict|bus_message_refused/);
    },
  ));

test('S0.19 S2.29 an unused session of an HTTP server and a task survive the change of the secret', (t) =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const [web, jobs] = [await CountingSessions.start(), await TaskServer.start('stateless')];
      t.after(() => Promise.all([web.stop(), jobs.stop()]));
      const servers = { web: { type: 'http', url: web.url }, jobs: { type: 'http', url: jobs.url } };
      const start = async (name: string, step: number): Promise<NodeProcess> => {
        const node = await nodes.node(name, servers, { cluster: STEPS[step]! });
        await callable(node, 'web', 'jobs');
        return node;
      };
      let [a, b] = [await start('a', 0), await start('b', 0)];
      const { sessionId } = await WireClient.open(a.serverUrl('web'));
      const counted = (node: NodeProcess): Promise<string> => {
        const client = new WireClient(node.serverUrl('web'));
        client.sessionId = sessionId;
        return client.callText('count');
      };
      assert.deepEqual([await counted(a), await counted(b)], ['1', '2']);
      const session = [...web.sessions.values()].find(({ count }) => count === 2)!;
      const { taskId } = await (await TaskClient.open(a.mcpUrl, 'stateless')).start('jobs__endless');
      const known = async (node: NodeProcess): Promise<string> =>
        (await (await TaskClient.open(node.mcpUrl, 'stateless')).get(taskId)).taskId;
      for (let step = 1; step < STEPS.length; step++) {
        a = await again(a, () => start('a', step));
        assert.deepEqual([await known(a), await known(b)], [taskId, taskId], `in the middle of step ${step}`);
        b = await again(b, () => start('b', step));
        if (step !== 2) continue;
        for (const bucket of ['trunkline_server_sessions', 'trunkline_tasks']) {
          const said = new RegExp(`previous_secret_unused.*${bucket}`);
          await until(
            () => said.test(b.stderr),
            `the node restarted last to say that ${bucket} is free of the old secret`,
          );
        }
      }
      assert.deepEqual([await counted(a), await counted(b)], ['3', '4']);
      assert.equal(session.count, 4);
      assert.deepEqual([await known(a), await known(b)], [taskId, taskId]);
    },
  ));
