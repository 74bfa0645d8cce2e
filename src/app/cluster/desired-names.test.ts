import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { DesiredNames } from './desired-names.ts';

test('the set of desired servers of a cluster is known when its other nodes have had time to report theirs', async () => {
  const clock = new FakeClock();
  const own = { state: { servers: new Map([['mine', serverNamed('mine')]]) } };
  assert.deepEqual([...new DesiredNames(own, clock).names!], ['mine']);
  const desired = new DesiredNames(own, clock);
  desired.attach({ servers: () => [serverNamed('mine'), serverNamed('theirs')] });
  assert.equal(desired.names, null);
  await clock.advance(60_000);
  assert.deepEqual([...desired.names!], ['mine', 'theirs']);
});
