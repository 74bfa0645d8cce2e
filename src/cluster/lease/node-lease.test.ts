import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import { LossyStore } from '../../../test/support/lossy-store.ts';
import { openedLate } from '../../../test/support/opened-late.ts';
import type { Bus } from '../../bus/bus.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import { pause } from '../../model/clock.ts';
import { Logger } from '../../telemetry/logger.ts';
import { LEASE_MS } from '../nodes/lease-record.ts';
import { Witnesses } from '../nodes/witnesses.ts';
import { NodeLease } from './node-lease.ts';

test('fault:F28 the reason for a missing lease is logged once if it lasts, whichever step fails', async () => {
  for (const step of ['the lease', 'what it covers', 'what it covers, late'] as const) {
    const clock = new FakeClock();
    const state = new MemorySharedState(clock);
    const lines: string[] = [];
    let broken = true;
    let times = 0;
    const fail = (): Promise<never> => Promise.reject(new Error(`no answer ${++times % 2}`));
    const store = openedLate('leases', async () => {
      return broken && step === 'the lease' ? fail() : state.bucket('leases', { ttlMs: LEASE_MS });
    });
    const deps = {
      bus: { peer: 'p' } as Bus,
      clock,
      logger: new Logger({ level: 'info', write: (line) => lines.push(line) }),
      node: 'n',
    };
    const lease = new NodeLease(deps, store, new Witnesses(deps, store), {
      leaseOver: () => {},
      leaseHeld: () => {},
      leaseRegained: async () => {
        if (!broken) return;
        if (step === 'what it covers, late') await pause(clock, 2_000);
        await fail();
      },
    });
    const pass = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 100) {
        await clock.advance(100);
        await settled();
      }
    };
    const said = (): number => lines.filter((line) => line.includes('"node_without_lease"')).length;
    lease.start();
    await pass(4_000);
    assert.deepEqual([said(), lease.held], [0, false], step);
    await pass(20_000);
    assert.equal(said(), 1, step);
    assert.match(lease.failure ?? '', /no answer/);
    broken = false;
    await pass(2_000);
    assert.deepEqual([lease.held, lease.failure], [true, null], step);
    await lease.close();
  }
});

test('fault:F28 a lease is renewed while many claims are written again, and is held when all are written', async () => {
  const clock = new FakeClock();
  const store = new MemorySharedState(clock).bucket('leases', { ttlMs: LEASE_MS });
  const deps = { bus: { peer: 'p' } as Bus, clock, logger: Logger.silent(), node: 'n' };
  let begun = 0;
  let written = Promise.withResolvers<void>();
  const node = {
    leaseOver: () => {},
    leaseHeld: () => {},
    leaseRegained: () => {
      begun++;
      return written.promise;
    },
  };
  const lease = new NodeLease(deps, store, new Witnesses(deps, store), node);
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 100) {
      await clock.advance(100);
      await settled();
    }
  };
  const revision = async () => (await store.get('lease.p'))!.revision;
  lease.start();
  await pass(500);
  const before = await revision();
  await pass(6_000);
  assert.ok((await revision()) >= before + 10);
  assert.deepEqual([lease.held, begun], [false, 1]);
  // Other nodes have ended the lease meanwhile: the node writes all claims once more.
  await store.delete('lease.p', await revision());
  await pass(1_000);
  written.resolve();
  written = Promise.withResolvers<void>();
  await pass(1_000);
  assert.deepEqual([lease.held, begun], [false, 2]);
  written.resolve();
  await pass(500);
  assert.equal(lease.held, true);
  await lease.close();
});

test('fault:F28 when a node takes its first lease, it ends the lease of its previous process, and no other', async () => {
  const clock = new FakeClock();
  const state = new MemorySharedState(clock);
  const store = state.bucket('leases', { ttlMs: LEASE_MS });
  for (const peer of ['former', 'other']) await store.create(`lease.${peer}`, Buffer.from('{}'));
  const deps = { bus: { peer: 'p' } as Bus, clock, logger: Logger.silent(), node: 'n', formerPeer: 'former' };
  const none = { leaseOver: () => {}, leaseHeld: () => {}, leaseRegained: async () => {} };
  const lease = new NodeLease(deps, store, new Witnesses(deps, store), none);
  lease.start();
  for (let passed = 0; passed < 500; passed += 100) {
    await clock.advance(100);
    await settled();
  }
  assert.deepEqual([...(await store.keys('lease.*'))].sort(), ['lease.other', 'lease.p']);
  await lease.close();
});

test('fault:F31 an answer of the store that arrives after a stop of the process does not renew its lease', async () => {
  const clock = new FakeClock();
  const store = new MemorySharedState(clock).bucket('leases', { ttlMs: LEASE_MS });
  const update = store.update.bind(store);
  let answer = Promise.resolve();
  store.update = async (...args) => {
    const revision = await update(...args);
    await answer;
    return revision;
  };
  const deps = { bus: { peer: 'p' } as Bus, clock, logger: Logger.silent(), node: 'n' };
  const said: string[] = [];
  const lease = new NodeLease(deps, store, new Witnesses(deps, store), {
    leaseOver: () => said.push('over'),
    leaseHeld: (how) => said.push(`held ${how}`),
    leaseRegained: async () => {},
  });
  lease.start();
  await clock.advance(1_000);
  const { promise, resolve } = Promise.withResolvers<void>();
  answer = promise;
  await clock.advance(500);
  clock.skip(30_000);
  resolve();
  await settled();
  assert.deepEqual([lease.held, said], [false, ['held anew']]);
  await clock.advance(500);
  assert.deepEqual([lease.held, said], [true, ['held anew', 'over', 'held in time']]);
  await lease.close();
});

test('fault:F28 a node that could not renew its lease for 2 s expects other nodes to return, too, for 2.5 s', async () => {
  const clock = new FakeClock();
  const store = new MemorySharedState(clock).bucket('leases', { ttlMs: LEASE_MS });
  const update = store.update.bind(store);
  let away = false;
  store.update = (...args) => (away ? Promise.reject(new Error('no answer')) : update(...args));
  const deps = { bus: { peer: 'p' } as Bus, clock, logger: Logger.silent(), node: 'n' };
  const none = { leaseOver: () => {}, leaseHeld: () => {}, leaseRegained: async () => {} };
  const lease = new NodeLease(deps, store, new Witnesses(deps, store), none);
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 50) {
      await clock.advance(50);
      await settled();
    }
  };
  const outage = async (ms: number): Promise<void> => {
    away = true;
    await pass(ms);
    away = false;
    await pass(500);
  };
  lease.start();
  await pass(1_000);
  assert.deepEqual([lease.held, lease.returning], [true, false], 'it has just started');
  await outage(800);
  assert.equal(lease.returning, false, 'one renewal failed');
  await outage(2_000);
  assert.deepEqual([lease.held, lease.returning], [true, true]);
  await pass(2_600);
  assert.equal(lease.returning, false);
  await lease.close();
});

test('fault:F28 in a store that was created again, with lower revisions, a renewal is one write again', async () => {
  const clock = new FakeClock();
  const lossy = new LossyStore(clock);
  const asked: string[] = [];
  const store = new Proxy(lossy.view().bucket('leases', { ttlMs: LEASE_MS }), {
    get: (bucket, part) => {
      if (part === 'get' || part === 'create' || part === 'update') asked.push(part);
      return Reflect.get(bucket, part);
    },
  });
  const deps = { bus: { peer: 'p' } as Bus, clock, logger: Logger.silent(), node: 'n' };
  const none = { leaseOver: () => {}, leaseHeld: () => {}, leaseRegained: async () => {} };
  const lease = new NodeLease(deps, store, new Witnesses(deps, store), none);
  lease.start();
  await settled();
  await clock.advance(20_000);
  assert.ok(asked.length > 30);
  await lossy.loseAll();
  await clock.advance(1_000);
  asked.length = 0;
  await clock.advance(5_000);
  assert.deepEqual([lease.held, asked], [true, Array(10).fill('update')]);
  await lease.close();
});

test('a node that leaves before the store has confirmed a new lease leaves no lease behind', async () => {
  const clock = new FakeClock();
  const store = new MemorySharedState(clock).bucket('leases', { ttlMs: LEASE_MS });
  const create = store.create.bind(store);
  const { promise, resolve } = Promise.withResolvers<void>();
  const deps = { bus: { peer: 'p' } as Bus, clock, logger: Logger.silent(), node: 'n' };
  const none = { leaseOver: () => {}, leaseHeld: () => {}, leaseRegained: async () => {} };
  const lease = new NodeLease(deps, store, new Witnesses(deps, store), none);
  lease.start();
  await clock.advance(1_000);
  store.create = async (...args) => {
    const revision = await create(...args);
    await promise;
    return revision;
  };
  await store.delete('lease.p');
  await clock.advance(500);
  assert.deepEqual(await store.keys('>'), ['lease.p']);
  await lease.close();
  resolve();
  await settled();
  assert.deepEqual(await store.keys('>'), []);
});

for (const [when, delay] of [
  ['before its end', 'answer'],
  ['after its end', 'request'],
] as const) {
  test(`a node that leaves while the store writes a renewal ${when} leaves no lease behind`, async () => {
    const clock = new FakeClock();
    const store = new MemorySharedState(clock).bucket('leases', { ttlMs: LEASE_MS });
    const update = store.update.bind(store);
    let waits: Promise<void> | null = null;
    store.update = async (...args) => {
      if (delay === 'request') await waits;
      const revision = await update(...args);
      if (delay === 'answer') await waits;
      return revision;
    };
    const deps = { bus: { peer: 'p' } as Bus, clock, logger: Logger.silent(), node: 'n' };
    const none = { leaseOver: () => {}, leaseHeld: () => {}, leaseRegained: async () => {} };
    const lease = new NodeLease(deps, store, new Witnesses(deps, store), none);
    lease.start();
    await clock.advance(1_000);
    assert.equal(lease.held, true);
    const { promise, resolve } = Promise.withResolvers<void>();
    waits = promise;
    await clock.advance(500);
    await lease.close();
    resolve();
    await settled();
    assert.deepEqual(await store.keys('>'), []);
  });
}
