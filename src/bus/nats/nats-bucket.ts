import { GatewayError } from '../../model/gateway-error.ts';
import type { Bucket, BucketOptions, StateRecord, StateWatcher } from '../shared-state.ts';
import {
  apiCode,
  NO_MESSAGE,
  NO_STREAM,
  NOT_DELETED,
  type Reach,
  type StreamMaker,
  stateFailure,
  WRONG_REVISION,
} from './jetstream.ts';
import { isRemoval, NatsWatch, OPERATION, type WatchedBucket } from './nats-watch.ts';

const MAX_VALUE_BYTES = 64 * 1024;

/** A lost bucket is created again by the next operation. */
export class NatsBucket implements Bucket, WatchedBucket {
  readonly name: string;
  readonly #state: StreamMaker;
  readonly #options: BucketOptions;
  #incarnation: string;

  private constructor(state: StreamMaker, name: string, options: BucketOptions, incarnation: string) {
    this.#state = state;
    this.name = name;
    this.#options = options;
    this.#incarnation = incarnation;
  }

  static async open(state: StreamMaker, name: string, options: BucketOptions): Promise<NatsBucket> {
    return new NatsBucket(state, name, options, await state.makeStream(name, options));
  }

  get incarnation(): string {
    return this.#incarnation;
  }

  get stream(): string {
    return `KV_${this.name}`;
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
    const revision = await this.restore(key, value);
    if (revision !== null) return revision;
    // A deletion leaves a marker, whose revision must be followed.
    const stored = await this.#last(key);
    if (stored !== null && !stored.removed) return null;
    const after = stored === null ? null : await this.#write(key, value, stored.revision);
    return after ?? this.restore(key, value);
  }

  async restore(key: string, value: Buffer): Promise<number | null> {
    return this.#write(key, value, 0);
  }

  async update(key: string, value: Buffer, revision: number): Promise<number | null> {
    return revision > 0 ? this.#write(key, value, revision) : null;
  }

  async delete(key: string, revision?: number): Promise<boolean> {
    // Markers expire like records if the bucket has a TTL.
    if (revision !== undefined && this.#options.ttlMs === 0) {
      const stored = await this.#last(key);
      if (stored?.revision !== revision) return false;
      if (stored.removed) return this.#deleteMark(revision);
    }
    return (await this.#write(key, Buffer.alloc(0), revision ?? null, 'DEL')) !== null;
  }

  async keys(pattern = '>'): Promise<readonly string[]> {
    const keys: string[] = [];
    await new Promise<void>((resolve, reject) => {
      const watch = new NatsWatch(
        this,
        pattern,
        { headersOnly: true },
        {
          put: ({ key }) => keys.push(key),
          gone: () => {},
          onReady: () => {
            watch.close();
            resolve();
          },
        },
      );
      watch.start().catch(reject);
    });
    return keys;
  }

  async watch(pattern: string, watcher: StateWatcher, newest?: number): Promise<{ close(): void }> {
    const watch = new NatsWatch(this, pattern, { newest }, watcher);
    await watch.start();
    return watch;
  }

  get deps(): StreamMaker['deps'] {
    return this.#state.deps;
  }

  /** Creates a lost bucket and repeats. */
  async withStream<T>(doing: 'read' | 'write', run: (reach: Reach) => Promise<T>): Promise<T> {
    try {
      return await run(await this.#state.reach());
    } catch (error) {
      if (!this.#gone(error)) throw stateFailure(error, doing);
    }
    this.#incarnation = await this.#state.makeStream(this.name, this.#options);
    try {
      return await run(await this.#state.reach());
    } catch (error) {
      throw stateFailure(error, doing);
    }
  }

  /** Subjects of a lost bucket have no subscriber. */
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

  /** By its sequence number in the stream, which stays unique. */
  async #deleteMark(revision: number): Promise<boolean> {
    return this.withStream('write', async ({ manager }) => {
      try {
        return await manager.streams.deleteMessage(this.stream, revision, false);
      } catch (error) {
        if (apiCode(error) === NOT_DELETED) return false;
        throw error;
      }
    });
  }

  /** Null if the revision differs. `expected` null: any. */
  async #write(key: string, value: Buffer, expected: number | null, operation?: 'DEL'): Promise<number | null> {
    const most = this.#options.maxValueBytes ?? MAX_VALUE_BYTES;
    if (value.length > most) {
      throw new GatewayError('TOO_LARGE', `a record of ${value.length} bytes`, { outcome: 'NOT_SENT' });
    }
    return this.withStream('write', async ({ client }) => {
      const headers = this.#state.deps.core.headers();
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
