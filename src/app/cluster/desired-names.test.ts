import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import type { Upstreams } from '../../model/ports.ts';
import { desiredNames } from './desired-names.ts';

test('which servers there should be is known of a cluster when its other nodes have had time to say it', async () => {
  const clock = new FakeClock();
  const own = () => ({ servers: new Map([['mine', serverNamed('mine')]]) }) as unknown as DesiredState;
  const everywhere = { servers: () => [serverNamed('mine'), serverNamed('theirs')] } as unknown as Upstreams;
  assert.deepEqual([...desiredNames(own, clock, () => null)()!], ['mine']);
  const names = desiredNames(own, clock, () => everywhere);
  assert.equal(names(), null);
  await clock.advance(60_000);
  assert.deepEqual([...names()!], ['mine', 'theirs']);
});
