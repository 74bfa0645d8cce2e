import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock, settled } from '../../../test/support/fake-clock.ts';
import type { Bus } from '../../bus/bus.ts';
import { MemorySharedState } from '../../bus/memory/memory-shared-state.ts';
import { KeyRing } from '../../bus/trust/key-ring.ts';
import { Logger } from '../../telemetry/logger.ts';
import { LEASE_MS, LEASES } from '../nodes/lease-record.ts';
import { Witnesses } from '../nodes/witnesses.ts';
import { ClusterIdentity } from './cluster-identity.ts';
import { NodeLease } from './node-lease.ts';

class Store {
  readonly clock = new FakeClock();
  readonly state = new MemorySharedState(this.clock);
  readonly leases = this.state.bucket(LEASES, { ttlMs: LEASE_MS });

  identity(secret: string): ClusterIdentity {
    return new ClusterIdentity(this.state, new KeyRing([secret.repeat(32)], null), {
      clock: this.clock,
      logger: Logger.silent(),
    });
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 100) {
      await this.clock.advance(100);
      await settled();
    }
  }
}

test('if two nodes with different secrets wait to take over an abandoned cluster, one takes it over and the other is refused', async () => {
  const store = new Store();
  await store.identity('o').confirm();
  const [a, b] = [store.identity('a'), store.identity('b')];
  for (const one of [a, b]) void one.confirm();
  await store.pass(14_000);
  assert.deepEqual([a.confirmed, b.confirmed], [false, false]);
  await store.pass(4_000);
  assert.deepEqual([a.confirmed, b.confirmed], [true, false]);
  await store.leases.create('lease.a', Buffer.from('{}'));
  await store.pass(2_000);
  assert.equal(b.confirmed, false);
  assert.match(b.refused ?? '', /another secret/);
});

test('a node that cannot read whether the cluster has its secret takes no lease', async () => {
  const store = new Store();
  const { clock, leases } = store;
  const identity = store.identity('a');
  const confirm = identity.confirm.bind(identity);
  let away = true;
  identity.confirm = () => (away ? Promise.reject(new Error('no answer')) : confirm());
  const deps = { bus: { peer: 'p' } as Bus, clock, logger: Logger.silent(), node: 'n', identity };
  const none = { leaseOver: () => {}, leaseHeld: () => {}, leaseRegained: async () => {} };
  const lease = new NodeLease(deps, leases, new Witnesses(deps, leases), none);
  lease.start();
  await store.pass(3_000);
  assert.deepEqual([await leases.keys('>'), lease.held, lease.failure], [[], false, 'no answer']);
  away = false;
  await store.pass(1_000);
  assert.equal(lease.held, true);
  await lease.close();
});
