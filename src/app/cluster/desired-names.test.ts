import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { desiredNames } from './desired-names.ts';

test('the set of desired servers of a cluster is known when its other nodes have had time to report theirs', () => {
  const own = { servers: new Map([['mine', serverNamed('mine')]]) };
  assert.deepEqual([...desiredNames(own, null, 0)!], ['mine']);
  const cluster = { upstreams: { servers: () => [serverNamed('mine'), serverNamed('theirs')] } };
  assert.equal(desiredNames(own, cluster, 59_999), null);
  assert.deepEqual([...desiredNames(own, cluster, 60_000)!], ['mine', 'theirs']);
});
