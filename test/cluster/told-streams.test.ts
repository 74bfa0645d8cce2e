import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@nats-io/transport-node';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import { WireClient } from '../support/wire-client.ts';

test('a node announces the stream of a session when it comes to that node, not when it opens there again', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const [a, b] = [await nodes.node('a', { counter: counterServer() }), await nodes.node('b', {})];
      await callable(b, 'counter');
      const wire = await connect({ servers: nodes.nats.url });
      let told = 0;
      const callback = (_: unknown, { data }: { readonly data: Uint8Array }): void => {
        if (Buffer.from(data).includes('"kind":"streams"')) told++;
      };
      wire.subscribe('trunkline.side.>', { callback });
      await wire.flush();
      const client = await WireClient.open(b.serverUrl('counter'));
      const opened = async (node: NodeProcess, times: number): Promise<number> => {
        told = 0;
        for (let i = 0; i < times; i++) {
          const at = new WireClient(node.serverUrl('counter'), 'stateful');
          at.sessionId = client.sessionId;
          const stream = await at.listen();
          await until(() => stream.status === 200, 'the stream');
          stream.drop();
        }
        await sleep(500);
        return told;
      };
      assert.deepEqual([await opened(b, 5), await opened(a, 5), await opened(b, 5)], [1, 1, 1]);
      await wire.close();
    },
  ));
