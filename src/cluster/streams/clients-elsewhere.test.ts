import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterBench } from '../../../test/support/cluster-bench.ts';

test('check:C9 a resource is released at the other nodes, and one whose name is too long for a hint at this one', async () => {
  const bench = new ClusterBench();
  const heard: string[] = [];
  const a = await bench.join('a', []);
  await bench.join('b', [], {
    gateway: {
      givenUp: (_sessionId, _server, uri) => void heard.push(uri),
      subscribeAgain: async () => 'later',
      mayHaveChanged: () => {},
    },
  });
  a.cluster.clients.givenUp('s', 'web', 'x'.repeat(600_000));
  a.cluster.clients.givenUp('s', 'web', 'web://short');
  await bench.pass(50);
  assert.deepEqual(heard, ['web://short']);
  await bench.dispose();
});
