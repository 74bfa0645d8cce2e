import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { openedLate } from '../../../test/support/opened-late.ts';
import type { Bus } from '../../bus/bus.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import type { Bucket, SharedState } from '../../bus/shared-state.ts';
import { Logger } from '../../telemetry/logger.ts';
import { leaseKey, TAKEOVER_MS } from '../nodes/lease-record.ts';
import type { NodeView } from '../nodes/node-state.ts';
import { Claims } from './claims.ts';

/** Nodes on a store that can lose everything. Each node counts its own lease as held, whatever the store contains. */
class Bench {
  readonly clock = new FakeClock();
  #store: SharedState = new MemorySharedState(this.clock);
  /** The answers to `create` wait for these, one after the other. */
  readonly held: Promise<void>[] = [];
  /** `lost`: writes fail without effect; `unheard`: writes take effect, but their answers are lost. */
  writes: 'well' | 'lost' | 'unheard' = 'well';
  /** The state that each node has of every other one. */
  heard: NodeView | null = null;
  /** Keys that were read; the answers to reads wait for `answers`. */
  readonly read: string[] = [];
  answers: Promise<void> = Promise.resolve();

  node(peer: string): { readonly claims: Claims; readonly lost: string[] } {
    // As over a connection: an open bucket continues without notice after the store was created again.
    const state: SharedState = {
      bucket: (name, options) =>
        openedLate(name, async () => {
          const now = async (): Promise<Bucket> => this.#store.bucket(name, options);
          const { incarnation } = await now();
          return {
            name,
            incarnation,
            get: async (key) => {
              this.read.push(key);
              const found = await (await now()).get(key);
              await this.answers;
              return found;
            },
            look: async (key) => (await now()).look(key),
            create: async (key, value) => {
              const late = this.held.shift();
              const revision = await (await now()).create(key, value);
              await late;
              return revision;
            },
            restore: async (key, value) => (await now()).restore(key, value),
            update: async (key, value, revision) => this.#write(async () => (await now()).update(key, value, revision)),
            delete: async (key, revision) => this.#write(async () => (await now()).delete(key, revision)),
            purgeTombstones: async (olderThanMs) => (await now()).purgeTombstones(olderThanMs),
            keys: async (pattern) => (await now()).keys(pattern),
            watch: async (pattern, watcher) => (await now()).watch(pattern, watcher),
          };
        }),
    };
    const lost: string[] = [];
    const claims = new Claims(
      {
        deps: { bus: { peer } as Bus, clock: this.clock, logger: Logger.silent(), node: peer },
        store: state.bucket('claims', { ttlMs: 0 }),
        leases: state.bucket('leases', { ttlMs: 0 }),
        lease: { held: true, since: 1, returning: false },
        nodes: { first: () => false, markSilent: () => {}, get: () => this.heard, others: () => [] },
      },
      { claimLost: ({ key }) => lost.push(key) },
    );
    return { claims, lost };
  }

  /** Writes a lease of the node to the store. */
  async alive(peer: string): Promise<void> {
    await this.#store.bucket('leases', { ttlMs: 0 }).create(leaseKey(peer), Buffer.from('{}'));
  }

  async #write<T>(work: () => Promise<T>): Promise<T> {
    if (this.writes === 'lost') throw new Error('the store does not answer');
    const written = await work();
    if (this.writes === 'unheard') throw new Error('the store does not answer');
    return written;
  }

  async lose(): Promise<void> {
    const other = new MemorySharedState(this.clock);
    // Its buckets get other incarnations.
    other.bucket('before', { ttlMs: 0 });
    this.#store = other;
  }
}

test('fault:F28 a store created again by another node is recognised: former claims are lost, even at an equal revision', async () => {
  const bench = new Bench();
  const [a, b] = [bench.node('a'), bench.node('b')];
  await a.claims.regained('anew');
  const before = await a.claims.claim('own', 's1');
  assert.equal(before.kind, 'mine');
  await bench.lose();
  await b.claims.regained('anew');
  const taken = await b.claims.claim('own', 's1');
  // The same revision in another incarnation of the store.
  assert.deepEqual([taken.kind, taken.kind === 'mine' && taken.claim.revision], ['mine', 1]);
  await a.claims.regained('anew');
  assert.deepEqual(a.lost, ['s1']);
  assert.equal(a.claims.mine('own', 's1'), null);
  assert.equal((await b.claims.owner('own', 's1'))?.kind, 'mine');
});

test('fault:F28 a node that knew the store before its loss claims nothing until every lease of that time has expired', async () => {
  const bench = new Bench();
  const { claims } = bench.node('a');
  await claims.regained('anew');
  await bench.lose();
  await claims.regained('anew');
  let claimed = false;
  const claiming = claims.claim('own', 's1').then(() => {
    claimed = true;
  });
  await bench.clock.advance(TAKEOVER_MS - 1);
  await settled();
  assert.equal(claimed, false);
  await bench.clock.advance(1);
  await claiming;
  assert.equal(claimed, true);
});

test('fault:F28 a node that keeps its lease notices within 5 s that the claims alone were lost, and ends its own claims', async () => {
  const bench = new Bench();
  const [a, b] = [bench.node('a'), bench.node('b')];
  await a.claims.regained('anew');
  for (const key of ['s1', 's2']) await a.claims.claim('own', key);
  await bench.clock.advance(20_000);
  assert.deepEqual([a.lost, a.claims.size], [[], 2]);
  await bench.lose();
  await bench.clock.advance(5_000);
  assert.deepEqual([a.lost, a.claims.size], [['s1', 's2'], 0]);
  assert.equal((await b.claims.claim('own', 's1')).kind, 'mine');
});

test('fault:F28 a falling revision shows a new store before a check does: the node ends its claims, and claims again after 2.5 s', async () => {
  const bench = new Bench();
  const { claims, lost } = bench.node('a');
  await claims.regained('anew');
  for (const key of ['s1', 's2', 's3']) await claims.claim('own', key);
  await bench.lose();
  await assert.rejects(claims.claim('own', 's4'), { outcome: 'NOT_SENT' });
  assert.deepEqual([lost, claims.size], [['s1', 's2', 's3'], 0]);
  const claiming = claims.claim('own', 's4');
  await bench.clock.advance(TAKEOVER_MS - 1);
  assert.equal(claims.size, 0);
  await bench.clock.advance(1);
  assert.equal((await claiming).kind, 'mine');
  // No check reports the same loss again.
  await bench.clock.advance(20_000);
  assert.deepEqual([lost.length, claims.size], [3, 1]);
});

test('fault:F28 an answer of the former store to a write is ignored once the loss of that store is known', async () => {
  const bench = new Bench();
  const { claims } = bench.node('a');
  await claims.regained('anew');
  const late = Promise.withResolvers<void>();
  bench.held.push(late.promise);
  const claiming = claims.claim('own', 's1');
  await settled();
  await bench.lose();
  await bench.clock.advance(5_000);
  late.resolve();
  await assert.rejects(claiming, { outcome: 'NOT_SENT' });
  assert.equal(claims.size, 0);
});

test('check:H4 concurrent claims are all made, in any order of the store’s answers', async () => {
  const bench = new Bench();
  const { claims } = bench.node('a');
  await claims.regained('anew');
  const first = Promise.withResolvers<void>();
  bench.held.push(first.promise);
  const early = claims.claim('own', 's1');
  await settled();
  const later = await claims.claim('own', 's2');
  first.resolve();
  const owners = [await early, later];
  assert.deepEqual(
    owners.map((owner) => owner.kind === 'mine' && owner.claim.revision),
    [1, 2],
  );
});

for (const forget of [false, true]) {
  test(`a claim that could not be ${forget ? 'forgotten' : 'released'} becomes free as soon as the store answers, unless a node has claimed it again`, async () => {
    const bench = new Bench();
    const [a, b] = [bench.node('a'), bench.node('b')];
    for (const peer of ['a', 'b']) await bench.alive(peer);
    for (const key of ['unwanted', 'taken', 'wanted']) await a.claims.claim('own', key);
    bench.writes = 'lost';
    await a.claims.release('own', 'unwanted', forget);
    await a.claims.release('own', 'wanted', forget);
    bench.writes = 'unheard';
    await a.claims.release('own', 'taken', forget);
    bench.writes = 'well';
    const taken = await b.claims.claim('own', 'taken');
    const wanted = await a.claims.claim('own', 'wanted');
    assert.deepEqual([taken.kind, wanted.kind], ['mine', 'mine']);
    bench.writes = 'lost';
    await bench.clock.advance(3_000);
    bench.writes = 'well';
    assert.equal((await b.claims.claim('own', 'unwanted')).kind, 'theirs');
    await bench.clock.advance(1_000);
    assert.equal((await b.claims.claim('own', 'unwanted')).kind, 'mine');
    assert.equal((await a.claims.owner('own', 'taken'))?.kind, 'theirs');
    assert.equal((await b.claims.owner('own', 'wanted'))?.kind, 'theirs');
    assert.equal(bench.clock.pending, 0);
  });
}

test('fault:F43 a node whose heartbeats arrive counts as owner without its lease, which an election may make unreadable', async () => {
  const bench = new Bench();
  const [a, b] = [bench.node('a'), bench.node('b')];
  await a.claims.claim('own', 's1');
  bench.heard = { state: 'ready' } as NodeView;
  assert.deepEqual([await b.claims.lives('a'), (await b.claims.claim('own', 's1')).kind], [true, 'theirs']);
  bench.heard = null;
  assert.equal(await b.claims.lives('a'), false);
  await bench.alive('a');
  assert.equal(await b.claims.lives('a'), true);
});

test('all requests for the lease of one peer share a read that begins after them', async () => {
  const bench = new Bench();
  const { claims } = bench.node('b');
  const answered = Promise.withResolvers<void>();
  bench.answers = answered.promise;
  const early = claims.lives('a');
  await settled();
  await bench.alive('a');
  const later = Array.from({ length: 20 }, () => claims.lives('a'));
  await settled();
  assert.deepEqual(bench.read, [leaseKey('a')], 'one at a time');
  answered.resolve();
  assert.deepEqual([await early, ...new Set(await Promise.all(later))], [false, true]);
  assert.equal(bench.read.length, 2);
});

test('fault:F28 many claims are written again, 64 at a time; the first failure ends this without the loss of a claim', async () => {
  const bench = new Bench();
  const { claims, lost } = bench.node('a');
  await claims.regained('anew');
  for (let i = 0; i < 200; i++) await claims.claim('own', `s${i}`);
  bench.writes = 'lost';
  await assert.rejects(claims.regained('anew'), /does not answer/);
  bench.writes = 'well';
  await claims.regained('anew');
  assert.deepEqual([lost, claims.size], [[], 200]);
});
