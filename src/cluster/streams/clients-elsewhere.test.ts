import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterBench, memoryBus, TestExchange, wordOf } from '../../../test/support/cluster-bench.ts';
import { failureJson } from '../../bus/calls/failure-json.ts';
import { AGGREGATE } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { packFrame } from '../frames/frame.ts';

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

test('the failure of a call that waited at another node is reported as it was, in the form that earlier versions know', async () => {
  const bench = new ClusterBench();
  const [a, b] = [await bench.join('a', []), memoryBus(bench.hub, bench.clock)];
  const error = new GatewayError('UNKNOWN', 'the server died');
  b.serve('trunkline.returned', (serving) => serving.answer(packFrame({ kind: 'failure' }, [failureJson(error)])));
  const outcome = a.cluster.clients.returned(b.peer, new TestExchange(), AGGREGATE);
  await bench.pass(50);
  assert.equal(wordOf(await outcome), 'UNKNOWN');
  await bench.dispose();
  await b.close();
});
