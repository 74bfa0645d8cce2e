import type { StreamConfig } from '@nats-io/jetstream';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Bucket, BucketOptions, SharedState } from '../shared-state.ts';
import {
  askForLack,
  makeStream,
  type NatsStateDeps,
  type Reach,
  type StreamMaker,
  StreamReplicas,
} from './jetstream.ts';
import { NatsBucket } from './nats-bucket.ts';

const REQUEST_MS = 2_000;
const MAX_VALUE_BYTES = 64 * 1024;
/** For JetStream's header. */
const HEADER_BYTES = 512;
const NANOS = 1_000_000;
/** Deduplication window; must not exceed the TTL. */
const DUPLICATES_MS = 120_000;

/** Buckets in JetStream's own key-value layout. Reads ask the leader, never a replica that may be behind: leases depend on it. */
export class NatsSharedState implements SharedState, StreamMaker {
  readonly deps: NatsStateDeps;
  readonly #replicas: StreamReplicas;
  #reach: Reach | null = null;

  constructor(deps: NatsStateDeps) {
    this.deps = deps;
    this.#replicas = new StreamReplicas(deps, () => this.reach());
  }

  /** Asks the server each time: another node may have created it again. */
  bucket(name: string, options: BucketOptions): Promise<Bucket> {
    return NatsBucket.open(this, this.deps.wire.scoped(name), options);
  }

  /** Rejects with GatewayError NOT_SENT. */
  async reach(): Promise<Reach> {
    const { wire, jetStream, clock } = this.deps;
    const { connection } = wire;
    if (connection === null || !wire.connected) throw new GatewayError('NOT_SENT', 'the bus is not connected');
    if (this.#reach?.connection === connection) return this.#reach;
    const options = { timeout: REQUEST_MS };
    // The check asks for account limits; without that permission the next operation reports the reason.
    const manager = await jetStream.jetstreamManager(connection, { ...options, checkAPI: false });
    const client = jetStream.jetstream(connection, options);
    this.#reach = { connection, client, manager, replicas: this.#replicas, clock };
    return this.#reach;
  }

  /** For operators; null if nothing, or unknown. */
  async lack(): Promise<string | null> {
    try {
      return await askForLack((await this.reach()).manager);
    } catch {
      return null;
    }
  }

  async makeStream(name: string, options: BucketOptions): Promise<string> {
    const wanted = streamConfig(name, options);
    const same = ({ max_age, max_msg_size }: StreamConfig): boolean =>
      max_age === wanted.max_age && max_msg_size === wanted.max_msg_size;
    return makeStream(await this.reach(), `KV_${name}`, wanted, same);
  }
}

function streamConfig(name: string, { ttlMs, maxValueBytes }: BucketOptions) {
  return {
    subjects: [`$KV.${name}.>`],
    max_msgs_per_subject: 1,
    max_age: ttlMs * NANOS,
    max_msg_size: (maxValueBytes ?? MAX_VALUE_BYTES) + HEADER_BYTES,
    duplicate_window: (ttlMs === 0 ? DUPLICATES_MS : Math.min(ttlMs, DUPLICATES_MS)) * NANOS,
    storage: 'file',
    retention: 'limits',
    discard: 'new',
    allow_rollup_hdrs: true,
    allow_direct: false,
    deny_delete: false,
    max_bytes: -1,
  } satisfies Partial<StreamConfig>;
}
