import type { StreamConfig } from '@nats-io/jetstream';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Bucket, BucketOptions, SharedState } from '../shared-state.ts';
import { askForLack, makeStream, type NatsStateDeps, type Reach, type StreamMaker } from './jetstream.ts';
import { NatsBucket } from './nats-bucket.ts';
import { StreamReplicas } from './stream-replicas.ts';

const REQUEST_MS = 2_000;
const MAX_VALUE_BYTES = 64 * 1024;
/** What JetStream wants in a header; the value must leave room for it. */
const HEADER_BYTES = 512;
const NANOS = 1_000_000;
/** Until when JetStream knows a message twice sent by its id. We send none. It may not be longer than records live. */
const DUPLICATES_MS = 120_000;

/**
 * Shared records in JetStream, laid out as its own key-value buckets, so that its tools show them. Reads ask the leader of
 * a bucket, never a copy that may be behind: leases depend on it.
 */
export class NatsSharedState implements SharedState, StreamMaker {
  readonly deps: NatsStateDeps;
  readonly #replicas: StreamReplicas;
  #reach: Reach | null = null;

  constructor(deps: NatsStateDeps) {
    this.deps = deps;
    this.#replicas = new StreamReplicas({ ...deps, reach: () => this.reach() });
  }

  /** Asked of the server every time: another node may have made it anew since. */
  bucket(name: string, options: BucketOptions): Promise<Bucket> {
    return NatsBucket.open(this, name, options);
  }

  /** Rejects with GatewayError NOT_SENT when nothing can be asked. */
  async reach(): Promise<Reach> {
    const { wire, jetStream, clock } = this.deps;
    const { connection } = wire;
    if (connection === null || !wire.connected) throw new GatewayError('NOT_SENT', 'the bus is not connected');
    if (this.#reach?.connection === connection) return this.#reach;
    const options = { timeout: REQUEST_MS };
    // The check asks for what an account may do; without the permission, the next operation fails with the reason.
    const manager = await jetStream.jetstreamManager(connection, { ...options, checkAPI: false });
    const client = jetStream.jetstream(connection, options);
    this.#reach = { connection, client, manager, replicas: this.#replicas, clock };
    return this.#reach;
  }

  /** What keeps this node from JetStream, for operators; null for nothing, and while that is not known. */
  async lack(): Promise<string | null> {
    try {
      return await askForLack((await this.reach()).manager);
    } catch {
      return null;
    }
  }

  /** Makes the stream behind a bucket, or brings its settings in line. Returns which making of it this is. */
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
