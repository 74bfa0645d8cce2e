import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import type { Bus } from '../../bus/bus.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { NodeLease } from '../lease/node-lease.ts';
import { claimText, readClaim, recordKey } from './claim-record.ts';
import { ClaimReleases } from './claim-releases.ts';

const OF_S = { server: 's', key: 'k' };

/** The store of a node with one claim, which is the first record of the store. */
async function claimed() {
  const clock = new FakeClock();
  const store = new MemorySharedState(clock).bucket('claims', { ttlMs: 0 });
  const since = await store.create(recordKey(OF_S), claimText({ node: 'a', peer: 'a', since: null }));
  assert.ok(since !== null);
  const lease = { held: true } as NodeLease;
  const releases = new ClaimReleases({
    deps: { bus: { peer: 'a' } as Bus, clock, logger: Logger.silent(), node: 'a' },
    store,
    leases: store,
    lease,
    nodes: { first: () => false, markSilent: () => {}, get: () => null, others: () => [] },
  });
  const claim = { ...OF_S, epoch: `${store.incarnation}.${since}`, since, revision: since };
  const ownerIs = async (): Promise<string> => readClaim((await store.get(recordKey(OF_S)))!).peer;
  return { clock, claim, releases, ownerIs };
}

test('a lost claim is freed in the store later', async () => {
  const { clock, claim, releases, ownerIs } = await claimed();
  releases.later(claim, false);
  assert.equal(await ownerIs(), 'a');
  await clock.advance(1_000);
  await settled();
  assert.equal(await ownerIs(), '');
});

test('fault:F28 a claim of another incarnation of the store frees nothing in this one, whose revisions are the same', async () => {
  const { clock, claim, releases, ownerIs } = await claimed();
  releases.later({ ...claim, epoch: `before.${claim.since}` }, false);
  await clock.advance(5_000);
  await settled();
  assert.equal(await ownerIs(), 'a');
});
