import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serverNamed } from '../../../test/support/cluster-bench.ts';
import { FakeClock } from '../../../test/support/fake-clock.ts';
import { openedLate } from '../../../test/support/opened-late.ts';
import { clientOf } from '../../../test/support/played-upstreams.ts';
import type { Bus } from '../../bus/bus.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import { callerKey } from '../../model/client-profile.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { NodeLease } from '../lease/node-lease.ts';
import { LEASE_MS, leaseKey } from '../nodes/lease-record.ts';
import { readFloor } from './claim-record.ts';
import { ClaimSweep } from './claim-sweep.ts';
import { Claims } from './claims.ts';
import { ProcessOwnership } from './process-ownership.ts';

const HOUR_MS = 60 * 60_000;
const logger = Logger.silent();

/** Two nodes at one store; the test sets their leases. */
class Bench {
  readonly clock = new FakeClock();
  state = new MemorySharedState(this.clock);
  readonly claims = openedLate('claims', async () => this.state.bucket('claims', { ttlMs: 0 }));
  readonly leases = new MemorySharedState(this.clock).bucket('leases', { ttlMs: LEASE_MS });
  due = true;
  readonly sweep = new ClaimSweep({
    deps: { bus: {} as Bus, clock: this.clock, logger, node: 'a' },
    store: this.claims,
    leases: this.leases,
    lease: { held: true, since: 1, returning: false },
    nodes: { first: () => this.due, markSilent: () => {}, get: () => null, others: () => [] },
  });

  node(peer: string): Claims {
    const lease = { held: true, since: 1 } as NodeLease;
    const { claims: store, leases, clock } = this;
    const deps = { bus: { peer } as Bus, clock, logger, node: peer };
    return new Claims(
      {
        deps,
        store,
        leases,
        lease,
        nodes: { first: () => false, markSilent: () => {}, get: () => null, others: () => [] },
      },
      { claimLost: () => {} },
    );
  }

  async alive(...peers: string[]): Promise<void> {
    for (const peer of peers) await this.leases.create(leaseKey(peer), Buffer.from('{}'));
  }

  /** The revisions of the marks of deleted claims. */
  async marks(): Promise<number[]> {
    const marks: number[] = [];
    const watch = await this.claims.watch('own.*', { put() {}, gone: (_key, revision) => marks.push(revision) });
    watch.close();
    return marks;
  }

  async keys(): Promise<number> {
    return (await this.claims.keys('own.*')).length;
  }

  /** Runs the sweep every ten minutes for this time; these nodes are alive at each run. */
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

test('freed claims, and those of a gone node, are deleted after an hour; claims of living nodes stay', async () => {
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

test('an outage does not age a claim, and a takeover starts the hour of a claim anew', async () => {
  const bench = new Bench();
  const [a, b] = [bench.node('a'), bench.node('b')];
  await bench.alive('a', 'b');
  await a.claim('s', 'one');
  await b.claim('s', 'other');
  await bench.pass(HOUR_MS, 'a', 'b');
  // All leases have expired when the store is back, and no sweep has observed that for an hour.
  await bench.clock.advance(2 * HOUR_MS);
  assert.equal(await bench.sweep.run(), 0);
  // Idle for nearly an hour, then taken over, and idle again: the hour begins anew.
  await bench.pass(HOUR_MS - 10 * 60_000, 'a');
  assert.equal((await a.claim('s', 'other')).kind, 'mine');
  await a.release('s', 'other', false);
  assert.equal(await bench.pass(HOUR_MS, 'a'), 0);
  assert.equal(await bench.pass(HOUR_MS, 'a'), 1);
});

test('a node sweeps only while it is due, and time before its first sweep does not count', async () => {
  const bench = new Bench();
  const a = bench.node('a');
  await a.claim('s', 'one');
  await a.release('s', 'one', false);
  bench.due = false;
  assert.equal(await bench.pass(3 * HOUR_MS), 0);
  bench.due = true;
  assert.equal(await bench.pass(HOUR_MS), 0, 'time before its first sweep does not count');
  assert.equal(await bench.pass(HOUR_MS), 1);
});

test('marks of deleted claims are removed after an hour, and living claims stay', async () => {
  const bench = new Bench();
  const a = bench.node('a');
  await bench.alive('a');
  for (let at = 0; at < 30; at++) {
    await a.claim('s', `ended ${at}`);
    await a.release('s', `ended ${at}`, true);
  }
  const again = await a.claim('s', 'ended 7');
  assert.equal((await bench.marks()).length, 29);
  await bench.pass(HOUR_MS - 10 * 60_000, 'a');
  await a.claim('s', 'late');
  await a.release('s', 'late', true);
  assert.equal((await bench.marks()).length, 30, 'too early');
  await bench.pass(10 * 60_000, 'a');
  assert.equal((await bench.marks()).length, 1, 'the late one is kept for an hour too');
  assert.equal(await bench.keys(), 1);
  assert.ok(again.kind === 'mine' && a.holds(again.claim));
  // The highest revision is never forgotten.
  await bench.pass(3 * HOUR_MS, 'a');
  const [last, ...others] = await bench.marks();
  assert.equal(others.length, 0);
  const next = await a.claim('s', 'next');
  assert.ok(next.kind === 'mine' && next.claim.revision > last!);
});

test('the sweep also removes the marks of claims that it deleted because their node was gone', async () => {
  const bench = new Bench();
  const [a, b] = [bench.node('a'), bench.node('b')];
  await bench.alive('a', 'b');
  for (let at = 0; at < 10; at++) await b.claim('s', `of b ${at}`);
  await bench.pass(2 * HOUR_MS, 'a');
  assert.equal(await bench.keys(), 0);
  assert.equal((await bench.marks()).length, 10);
  await a.claim('s', 'mine');
  await bench.pass(2 * HOUR_MS, 'a');
  assert.equal((await bench.marks()).length, 0);
});

test('no session takes over a process older than the deleted claims: epochs do not fall', async () => {
  const bench = new Bench();
  const a = bench.node('a');
  const ownership = new ProcessOwnership(a, { epoch: '1.1', able: true }, 'a');
  const server = serverNamed('s', { isolation: 'session' });
  const client = clientOf('session');
  const key = callerKey(client, 'session');
  await bench.alive('a', 'b');
  const warm = await ownership.acquire(server, client, 'spare');
  // Node b owned the session after the spare was started, and the sweep deletes its claim.
  const b = bench.node('b');
  const owner = await b.claim('s', key, client);
  assert.ok(owner.kind === 'mine');
  await b.release('s', key, false);
  await bench.pass(2 * HOUR_MS + 10 * 60_000, 'a');
  assert.ok((await readFloor(bench.claims)) >= owner.claim.revision);
  const again = await a.claim('s', key, client);
  assert.ok(again.kind === 'mine' && again.claim.fresh);
  assert.equal(ownership.mayAdopt(server, client), false);
  warm.release();
  const younger = await ownership.acquire(server, client, 'spare');
  await a.claim('s', callerKey(clientOf('next'), 'session'), clientOf('next'));
  assert.equal(ownership.mayAdopt(server, clientOf('next')), true);
  younger.assignTo(clientOf('next'));
});
