import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Bucket, SharedState, StateRecord } from '../../bus/shared-state.ts';
import type { KeyRing } from '../../bus/trust/key-ring.ts';
import { pause } from '../../model/clock.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { LEASE_MS, LEASES } from '../nodes/lease-record.ts';
import { compareAndSet, jsonIn } from '../store-records.ts';

const IDENTITY = 'trunkline_identity';
const KEY = 'identity';
const TEXT = 'trunkline cluster';
/** Nodes that lost NATS at the same time have reconnected by then. */
const ABANDONED_MS = 15_000;
const LOOK_MS = 1_000;

interface Seal {
  readonly key: string;
  readonly mac: string;
}

/**
 * Detects nodes with another secret by a record with a MAC of the secret. Without it such a node would count as ready, and a
 * share of all requests would fail. The first node writes the record. A node with another secret replaces it if no node holds a
 * lease for 15 s. Each node checks it once, at its start.
 */
export class ClusterIdentity {
  readonly #bucket: Bucket;
  readonly #leases: Bucket;
  readonly #seals: readonly Seal[];
  readonly #deps: Pick<ClusterDeps, 'clock' | 'logger'>;
  /** The record has a MAC of this node's secret. */
  confirmed = false;
  /** Why this node must not join the cluster; null if it may, or while that is unknown. */
  refused: string | null = null;
  #confirming: Promise<void> | null = null;

  constructor(state: SharedState, keys: KeyRing, deps: Pick<ClusterDeps, 'clock' | 'logger'>) {
    this.#bucket = state.bucket(IDENTITY, { ttlMs: 0 });
    this.#leases = state.bucket(LEASES, { ttlMs: LEASE_MS });
    this.#seals = keys.keys('identity').map(({ id, key }) => ({
      key: id,
      mac: createHmac('sha256', key).update(TEXT).digest('hex'),
    }));
    this.#deps = deps;
  }

  /** Resolves when it is known whether this node is refused. Rejects with GatewayError if the state cannot be read. */
  async confirm(): Promise<void> {
    if (this.confirmed) return;
    this.#confirming ??= this.#confirm().finally(() => {
      this.#confirming = null;
    });
    await this.#confirming;
  }

  async #confirm(): Promise<void> {
    const { clock, logger } = this.#deps;
    for (let abandoned = { revision: 0, since: 0 }; ; ) {
      const stored = await this.#bucket.get(KEY);
      const known = stored === null ? -1 : this.#seals.findIndex((seal) => isSeal(stored.value, seal));
      if (known === 0) break;
      // The record is of a previous secret: a node with the new one replaces it.
      if (known > 0 || stored === null) {
        if (await this.#write(stored)) break;
        continue;
      }
      if ((await this.#leases.keys('lease.>')).length > 0) {
        this.refused = DIFFERS;
        return;
      }
      // A node that has just written the record has no lease yet.
      if (abandoned.revision !== stored.revision) {
        logger.warn('cluster_of_another_secret', { waitsMs: ABANDONED_MS, reason: ABANDONED });
        abandoned = { revision: stored.revision, since: clock.now() };
      }
      if (clock.now() - abandoned.since >= ABANDONED_MS && (await this.#write(stored))) break;
      await pause(clock, LOOK_MS);
    }
    this.confirmed = true;
    this.refused = null;
  }

  /** Writes the record again if the store has lost it. */
  async restore(): Promise<void> {
    if (this.confirmed) await this.#bucket.restore(KEY, this.#value);
  }

  async #write(over: StateRecord | null): Promise<boolean> {
    return (await compareAndSet(this.#bucket, KEY, this.#value, over)) !== null;
  }

  get #value(): Buffer {
    return Buffer.from(JSON.stringify(this.#seals[0]));
  }
}

const DIFFERS = 'the running nodes of this cluster have another secret';
const ABANDONED =
  'the cluster was last used with another secret, and no node of it runs: this node takes over unless one comes back';

function isSeal(value: Buffer, { key, mac }: Seal): boolean {
  const stored = jsonIn<Partial<Seal>>(value);
  const found = Buffer.from(String(stored?.mac), 'hex');
  return stored?.key === key && found.length === 32 && timingSafeEqual(found, Buffer.from(mac, 'hex'));
}
