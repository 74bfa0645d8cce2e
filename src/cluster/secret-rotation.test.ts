import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterBench, serverNamed } from '../../test/support/cluster-bench.ts';

const OLD = Buffer.alloc(32, 1);
const NEW = Buffer.alloc(32, 2);

test('while the secret changes, equal definitions are one server whichever key each node has, and different ones are not', async () => {
  const bench = new ClusterBench();
  const servers = [serverNamed('files'), serverNamed('memory')];
  // Nodes of all steps at once; a node with both keys shows that the others have the same definition.
  const first = await bench.join('a', servers, { key: OLD });
  await bench.join('b', servers, { key: NEW });
  assert.equal(first.cluster.known.conflicts.length, 2, 'nodes without a key in common cannot compare');
  await bench.join('c', [serverNamed('files'), serverNamed('memory', { timeoutMs: 1 })], {
    key: OLD,
    previousKeys: [NEW],
  });
  await bench.pass(600);
  const sides = [['a', 'b'], ['c']];
  await bench.join('d', servers, { key: NEW, previousKeys: [OLD] });
  await bench.pass(600);
  for (const { cluster } of bench.nodes) {
    assert.deepEqual(cluster.known.conflicts, [{ server: 'memory', sides: [[...sides[0]!, 'd'], sides[1]] }]);
  }
  await bench.dispose();
});
