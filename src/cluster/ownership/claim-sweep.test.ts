import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import { callerKey } from '../../model/isolation.ts';
import { Logger } from '../../telemetry/logger.ts';
import { LazyBucket } from '../lazy-bucket.ts';
import { LEASE_MS, leaseKey, type NodeLease } from '../lease/node-lease.ts';
import { forgottenUpTo } from './claim-floor.ts';
import { ClaimSweep } from './claim-sweep.ts';
import { Claims } from './claims.ts';
import { ProcessOwnership } from './process-ownership.ts';

const HOUR_MS = 60 * 60_000;
const logger = Logger.silent();

/** Two nodes at one store, whose leases are what the test says. */
class Bench {
  readonly clock = new FakeClock();
  readonly state = new MemorySharedState(this.clock);
  readonly claims = new LazyBucket(this.state, 'claims', { ttlMs: 0 });
  readonly leases = new LazyBucket(this.state, 'leases', { ttlMs: LEASE_MS });
  due = true;
  readonly sweep = new ClaimSweep({
    claims: this.claims,
    leases: this.leases,
    clock: this.clock,
    logger,
    due: () => this.due,
  });

  node(peer: string): Claims {
    const lease = { held: true, since: 1 } as NodeLease;
    const { claims: store, leases, clock } = this;
    return new Claims({
      store,
      leases,
      clock,
      logger,
      node: peer,
      peer,
      lease: () => lease,
      lost: () => {},
    });
  }

  async alive(...peers: string[]): Promise<void> {
    for (const peer of peers) await this.leases.put(leaseKey(peer), Buffer.from('{}'));
  }

  async keys(): Promise<number> {
    return (await this.claims.keys('own.*')).length;
  }

  /** Runs every ten minutes, for so long; the nodes live at each run. */
  async pass(ms: number, ...peers: string[]): Promise<number> {
    let forgotten = 0;
    for (let passed = 0; passed < ms; passed += 10 * 60_000) {
      await this.clock.advance(10 * 60_000);
      await this.alive(...peers);
      forgotten += await this.sweep.run();
    }
    return forgotten;
  }
}

test('claims that were freed, or whose node is gone, are forgotten after an hour; those of nodes that live never', async () => {
  const bench = new Bench();
  const [a, b] = [bench.node('a'), bench.node('b')];
  await bench.alive('a', 'b');
  await a.claim('s', 'kept');
  await a.claim('s', 'freed');
  await b.claim('s', 'of one who dies');
  await a.release('s', 'freed', false);
  assert.equal(await bench.keys(), 3);
  assert.equal(await bench.pass(HOUR_MS, 'a'), 0, 'too early');
  assert.equal(await bench.pass(HOUR_MS, 'a'), 2);
  assert.equal(await bench.keys(), 1);
  assert.equal((await b.owner('s', 'kept'))?.kind, 'theirs');
});

test('an outage of everybody makes no claim old, and whoever takes one meanwhile keeps it', async () => {
  const bench = new Bench();
  const [a, b] = [bench.node('a'), bench.node('b')];
  await bench.alive('a', 'b');
  await a.claim('s', 'one');
  await b.claim('s', 'other');
  await bench.pass(HOUR_MS, 'a', 'b');
  // All leases are over when the store is back, and nobody was there to see that for an hour.
  await bench.clock.advance(2 * HOUR_MS);
  assert.equal(await bench.sweep.run(), 0);
  // Idle for nearly an hour, then taken over, and idle again: the hour begins anew.
  await bench.pass(HOUR_MS - 10 * 60_000, 'a');
  assert.equal((await a.claim('s', 'other')).kind, 'mine');
  await a.release('s', 'other', false);
  assert.equal(await bench.pass(HOUR_MS, 'a'), 0);
  assert.equal(await bench.pass(HOUR_MS, 'a'), 1);
});

test('it is left to one node, and to nobody while there is one that would not heed it', async () => {
  const bench = new Bench();
  const a = bench.node('a');
  await a.claim('s', 'one');
  await a.release('s', 'one', false);
  bench.due = false;
  assert.equal(await bench.pass(3 * HOUR_MS), 0);
  bench.due = true;
  assert.equal(await bench.pass(HOUR_MS), 0, 'what it has not seen itself does not count');
  assert.equal(await bench.pass(HOUR_MS), 1);
});

test('a process that is older than what was forgotten is no one’s: epochs do not fall', async () => {
  const bench = new Bench();
  const a = bench.node('a');
  const ownership = new ProcessOwnership(a, () => '1.1', 'a');
  const server = serverNamed('s', { isolation: 'session' });
  const client = clientOf('session');
  const key = callerKey(client, 'session');
  await bench.alive('a', 'b');
  const spare = await ownership.own(server, client, 'spare');
  // Somebody owned the session after the spare was started, and it was forgotten that he did.
  const b = bench.node('b');
  const owner = await b.claim('s', key, client);
  assert.ok(owner.kind === 'mine');
  await b.release('s', key, false);
  await bench.pass(2 * HOUR_MS + 10 * 60_000, 'a');
  assert.ok((await forgottenUpTo(bench.claims)) >= owner.claim.revision);
  const again = await a.claim('s', key, client);
  assert.ok(again.kind === 'mine' && again.claim.fresh);
  assert.equal(ownership.mayAdopt(server, client), false);
  spare.release();
  const younger = await ownership.own(server, client, 'spare');
  await a.claim('s', callerKey(clientOf('next'), 'session'), clientOf('next'));
  assert.equal(ownership.mayAdopt(server, clientOf('next')), true);
  younger.adopted(clientOf('next'));
});
