import type { JsMsg, PushConsumer, StreamConfig } from '@nats-io/jetstream';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Bucket, BucketOptions, SharedState, StateRecord, StateWatcher } from '../shared-state.ts';
import {
  apiCode,
  checkJetStream,
  type JetStreamContext,
  makeStream,
  type NatsStateDeps,
  NO_MESSAGE,
  NO_STREAM,
  StreamReplicas,
  stateFailure,
  WRONG_REVISION,
  waitUntilCreated,
} from './jetstream.ts';
import { crashOnError } from './nats-wire.ts';
import { PendingRecords, readStream } from './pending-records.ts';
import { isRemoval, isTombstone, OPERATION, Tombstones } from './tombstones.ts';

const MAX_VALUE_BYTES = 64 * 1024;
const RETRY_MS = 500;
const CREATE_ATTEMPTS = 5;

const REQUEST_MS = 2_000;
/** Space for the headers of JetStream. */
const HEADER_BYTES = 512;
const NANOS = 1_000_000;
/** Deduplication window; must not exceed the TTL. */
const DUPLICATES_MS = 120_000;

/** Buckets in the key-value layout of JetStream. Reads ask the leader, never a replica that may lag: leases depend on it. */
export class NatsSharedState implements SharedState {
  readonly deps: NatsStateDeps;
  readonly #replicas: StreamReplicas;
  #context: JetStreamContext | null = null;

  constructor(deps: NatsStateDeps) {
    this.deps = deps;
    this.#replicas = new StreamReplicas(deps, () => this.context());
  }

  bucket(name: string, options: BucketOptions): NatsBucket {
    return new NatsBucket(this, this.deps.wire.scoped(name), options);
  }

  /** Rejects with GatewayError NOT_SENT. */
  async context(): Promise<JetStreamContext> {
    const { wire, jetStream, clock } = this.deps;
    const { connection } = wire;
    if (connection === null || !wire.connected) throw new GatewayError('NOT_SENT', 'the bus is not connected');
    if (this.#context?.connection === connection) return this.#context;
    const options = { timeout: REQUEST_MS };
    // Skips the check, which reads account limits: without that permission, the next operation reports the reason.
    const manager = await jetStream.jetstreamManager(connection, { ...options, checkAPI: false });
    const client = jetStream.jetstream(connection, options);
    this.#context = { connection, client, manager, replicas: this.#replicas, clock };
    return this.#context;
  }

  /** Returns what JetStream lacks, for operators; null if nothing, or unknown. */
  async jetStreamProblem(): Promise<string | null> {
    try {
      return await checkJetStream((await this.context()).manager);
    } catch {
      return null;
    }
  }

  /** Creates the stream of a bucket or updates its settings. Returns its creation time. */
  async makeStream(name: string, options: BucketOptions): Promise<string> {
    return makeStream(await this.context(), `KV_${name}`, streamConfig(name, options), ['max_age', 'max_msg_size']);
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

export class NatsBucket implements Bucket {
  readonly name: string;
  readonly stream: string;
  readonly tombstones: Tombstones;
  readonly state: NatsSharedState;
  readonly #options: BucketOptions;
  #opening: Promise<void> | null = null;
  incarnation = '';

  constructor(state: NatsSharedState, name: string, options: BucketOptions) {
    this.state = state;
    this.name = name;
    this.stream = `KV_${name}`;
    this.#options = options;
    this.tombstones = new Tombstones(this.stream, this.subject('>'));
  }

  /** Only opening the bucket shows that another node has recreated it. Other operations do not wait for that. */
  async readIncarnation(): Promise<string> {
    try {
      await this.#open();
    } catch (error) {
      throw stateFailure(error, 'read');
    }
    return this.incarnation;
  }

  subject(key: string): string {
    return `$KV.${this.name}.${key}`;
  }

  async get(key: string): Promise<StateRecord | null> {
    const found = await this.look(key);
    return found === 'deleted' ? null : found;
  }

  async look(key: string): Promise<StateRecord | 'deleted' | null> {
    const stored = await this.#last(key);
    if (stored === null) return null;
    return stored.removed ? 'deleted' : { key, value: stored.value, revision: stored.revision };
  }

  async create(key: string, value: Buffer): Promise<number | null> {
    for (let attempt = 0; attempt < CREATE_ATTEMPTS; attempt++) {
      const revision = await this.restore(key, value);
      if (revision !== null) return revision;
      // A deletion leaves a tombstone, and the write must expect its revision.
      const stored = await this.#last(key);
      if (stored !== null && !stored.removed) return null;
      const after = stored === null ? null : await this.#write(key, value, stored.revision);
      if (after !== null) return after;
    }
    throw new GatewayError('NOT_SENT', 'other nodes create and delete the record all the time');
  }

  async restore(key: string, value: Buffer): Promise<number | null> {
    return this.#write(key, value, 0);
  }

  async update(key: string, value: Buffer, revision: number): Promise<number | null> {
    return revision > 0 ? this.#write(key, value, revision) : null;
  }

  async delete(key: string, revision?: number): Promise<boolean> {
    return (await this.#write(key, Buffer.alloc(0), revision ?? null, 'DEL')) !== null;
  }

  purgeTombstones(olderThanMs: number): Promise<number> {
    return this.withStream('write', (context) => this.tombstones.forget(context, olderThanMs));
  }

  keys(pattern = '>'): Promise<readonly string[]> {
    return this.withStream('read', async (context) => {
      const keys: string[] = [];
      const take = (message: JsMsg): boolean => {
        if (!isTombstone(message)) keys.push(keyOf(message, this));
        return true;
      };
      const filter = this.subject(pattern);
      const config = { deliver_policy: 'last_per_subject', filter_subjects: filter, headers_only: true } as const;
      await readStream(context, this.stream, config, take);
      return keys;
    });
  }

  async watch(pattern: string, watcher: StateWatcher, newest?: number): Promise<{ close(): void }> {
    const watch = new NatsWatch(this, pattern, watcher, newest);
    await watch.start();
    return watch;
  }

  /** Runs an operation. Recreates a lost bucket and repeats the operation once. */
  async withStream<T>(
    doing: 'read' | 'write',
    run: (context: JetStreamContext) => Promise<T>,
    repeats = true,
  ): Promise<T> {
    this.#opening ??= this.#open();
    const opening = this.#opening;
    try {
      await opening;
      return await run(await this.state.context());
    } catch (error) {
      if (this.#opening === opening) this.#opening = null;
      if (repeats && this.#gone(error)) return this.withStream(doing, run, false);
      throw stateFailure(error, doing);
    }
  }

  async #open(): Promise<void> {
    this.incarnation = incarnationOf(await this.state.makeStream(this.name, this.#options));
  }

  /** A write to a lost bucket gets no responders, because its subjects have no subscriber. */
  #gone(error: unknown): boolean {
    return apiCode(error) === NO_STREAM || (error instanceof Error && error.name === 'JetStreamNotEnabled');
  }

  async #last(key: string) {
    return this.withStream('read', async ({ manager }) => {
      try {
        const stored = await manager.streams.getMessage(this.stream, { last_by_subj: this.subject(key) });
        if (stored === null) return null;
        const removed = isRemoval(stored.header?.get(OPERATION));
        return { value: Buffer.from(stored.data), revision: stored.seq, removed };
      } catch (error) {
        if (apiCode(error) === NO_MESSAGE) return null;
        throw error;
      }
    });
  }

  /** Returns null if the revision differs. `expected` null: unconditional. */
  async #write(key: string, value: Buffer, expected: number | null, operation?: 'DEL'): Promise<number | null> {
    const { maxPayload } = this.state.deps.wire;
    const most = Math.min(this.#options.maxValueBytes ?? MAX_VALUE_BYTES, maxPayload - HEADER_BYTES);
    if (value.length > most) {
      throw new GatewayError('TOO_LARGE', `a record of ${value.length} bytes`, { outcome: 'NOT_SENT' });
    }
    return this.withStream('write', async ({ client }) => {
      const headers = this.state.deps.core.headers();
      if (operation !== undefined) headers.set(OPERATION, operation);
      try {
        const { seq } = await client.publish(this.subject(key), value, {
          headers,
          ...(expected === null ? {} : { expect: { lastSubjectSequence: expected } }),
        });
        return seq;
      } catch (error) {
        if (WRONG_REVISION.includes(apiCode(error))) return null;
        throw error;
      }
    });
  }
}

interface Running {
  readonly consumer: PushConsumer;
  readonly messages: { stop(): void };
  readonly first: PendingRecords;
}

/** Restarts after every reconnect, because it does not know what it missed. */
export class NatsWatch {
  readonly #bucket: NatsBucket;
  readonly #pattern: string;
  readonly #watcher: StateWatcher;
  readonly #newest: number;
  #running: Running | null = null;
  #round = 0;
  #closed = false;
  #unfollow: (() => void) | null = null;
  #stopRetry: (() => void) | null = null;

  /** `newest`: of a larger bucket, lists at most this many records, those changed last. */
  constructor(bucket: NatsBucket, pattern: string, watcher: StateWatcher, newest = Number.POSITIVE_INFINITY) {
    this.#bucket = bucket;
    this.#pattern = pattern;
    this.#watcher = watcher;
    this.#newest = newest;
  }

  /** Rejects with GatewayError if it cannot begin. Once begun, it retries until closed. */
  async start(): Promise<void> {
    await this.#begin();
    if (this.#closed) return;
    this.#unfollow = this.#bucket.state.deps.wire.onChange(({ type }) => {
      if (type === 'connected') this.#retry();
    });
  }

  close(): void {
    this.#closed = true;
    this.#stopRetry?.();
    this.#unfollow?.();
    this.#stop();
  }

  #retry(): void {
    if (this.#closed) return;
    this.#stopRetry?.();
    const started = this.#begin();
    const round = this.#round;
    started.catch(() => {
      if (round === this.#round) this.#retryLater();
    });
  }

  #retryLater(): void {
    this.#stopRetry = this.#bucket.state.deps.clock.after(RETRY_MS, () => this.#retry());
  }

  async #begin(): Promise<void> {
    this.#stop();
    const round = this.#round;
    const live = (): boolean => !this.#closed && round === this.#round;
    await this.#bucket.withStream('read', async (context) => {
      const { client, manager } = context;
      // Another node may have recreated the stream.
      const { created, state } = await waitUntilCreated(context, await manager.streams.info(this.#bucket.stream));
      const newest = this.#newest;
      const complete = state.messages <= newest || (await this.#bucket.tombstones.hasAtMost(context, newest));
      const consumer = await client.consumers.getPushConsumer(this.#bucket.stream, {
        // The stream keeps one message per record.
        ...(complete
          ? { deliver_policy: 'last_per_subject' as const }
          : { deliver_policy: 'by_start_sequence' as const, opt_start_seq: state.last_seq - newest + 1 }),
        // An array of filters would need nats-server 2.10.
        filter_subjects: this.#bucket.subject(this.#pattern),
      });
      const left = (await consumer.info(true)).num_pending;
      const ready = (): void => this.#watcher.onReady?.(incarnationOf(created), complete);
      const first = new PendingRecords(consumer, left, this.#bucket.state.deps.clock, ready);
      if (live()) this.#watcher.onBegin?.();
      try {
        const messages = await consumer.consume({
          callback: (message) => {
            if (!live()) return;
            crashOnError(() => this.#notify(message));
            first.received(message);
          },
        });
        if (live()) this.#running = { consumer, messages, first };
        else messages.stop();
        this.#followStream(messages.status(), created, live).catch(() => {});
      } finally {
        if (this.#running?.consumer !== consumer) consumer.delete().catch(() => {});
      }
      if (live()) first.begin();
    });
  }

  /** A consumer that the client creates again in a stream made anew would list nothing. */
  async #followStream(
    statuses: AsyncIterable<{ readonly type: string }>,
    created: string,
    live: () => boolean,
  ): Promise<void> {
    for await (const { type } of statuses) {
      if (type !== 'ordered_consumer_recreated' || !live()) continue;
      const incarnation = await this.#bucket.readIncarnation().catch(() => null);
      if (incarnation !== incarnationOf(created) && live()) this.#retry();
    }
    // The client gives up a consumer that has received nothing when JetStream has refused it 30 times.
    if (live()) this.#retryLater();
  }

  #stop(): void {
    this.#round++;
    const running = this.#running;
    this.#running = null;
    if (running === null) return;
    running.first.stop();
    running.messages.stop();
    running.consumer.delete().catch(() => {});
  }

  #notify(message: JsMsg): void {
    const key = keyOf(message, this.#bucket);
    if (isTombstone(message)) this.#watcher.gone(key, message.seq);
    else this.#watcher.put({ key, value: Buffer.from(message.data), revision: message.seq });
  }
}

function incarnationOf(created: string): string {
  return String(Date.parse(created));
}

/** Copies the key: a slice would retain the whole subject, and watchers keep keys. */
function keyOf({ subject }: JsMsg, bucket: NatsBucket): string {
  return Buffer.from(subject.slice(bucket.subject('').length)).toString();
}
