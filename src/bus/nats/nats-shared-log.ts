import type { JsMsg, StreamConfig } from '@nats-io/jetstream';
import { groupOf, type LogReading, type SharedLog } from '../shared-log.ts';
import { apiCode, makeStream, NO_STREAM, stateFailure, WRONG_REVISION } from './jetstream.ts';
import { LogShares, type LogsState, type StoredLogs } from './log-shares.ts';
import type { NatsSharedState } from './nats-shared-state.ts';
import { readStream } from './pending-records.ts';

const STREAM = 'trunkline_logs';
const SUBJECT = 'trunkline.logs';
const MAX_AGE_MS = 5 * 60_000;
const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;
const MAX_ENTRIES = 1_024;
const RESERVED_BYTES = 1_024;
/** Overhead of an entry in the store of nats-server, beside name and content. */
const ENTRY_BYTES = 16;
const NANOS = 1_000_000;
const RETRY_MS = 1_000;
/** `append` drops entries beyond it. */
const MAX_UNSENT_BYTES = 8 * 1024 * 1024;

/** Keeps all shared logs in one in-memory JetStream stream, a subject each. `append` publishes without acknowledgement. */
export class NatsSharedLog implements SharedLog, StoredLogs {
  readonly maxBytes: number;
  readonly maxAgeMs = MAX_AGE_MS;
  readonly #nats: Pick<NatsSharedState, 'deps' | 'context'>;
  readonly #shares: LogShares;
  readonly #unfollow: () => void;
  #stopRetry: () => void = () => {};
  #unsent = 0;
  #flushing = false;
  #closed = false;
  #refused = '';

  /** `maxBytes`: limit of all logs together, in the memory of NATS. */
  constructor(nats: Pick<NatsSharedState, 'deps' | 'context'>, maxBytes = DEFAULT_MAX_BYTES) {
    const { wire, clock } = nats.deps;
    this.#nats = nats;
    this.maxBytes = maxBytes;
    this.#shares = new LogShares(this, clock);
    // A restarted server has lost the in-memory stream.
    this.#unfollow = wire.onChange(({ type }) => {
      if (type === 'connected') void this.#make();
    });
    void this.#make();
  }

  get maxEntryBytes(): number {
    return this.#nats.deps.wire.maxPayload - RESERVED_BYTES;
  }

  append(name: string, entry: Buffer): boolean {
    const { wire } = this.#nats.deps;
    if (!wire.connected || entry.length > this.maxEntryBytes) return false;
    if (this.#unsent + entry.length > MAX_UNSENT_BYTES) return false;
    if (!this.#shares.take(groupOf(name), ENTRY_BYTES + SUBJECT.length + name.length + entry.length)) return false;
    wire.publish(`${SUBJECT}.${name}`, entry);
    this.#unsent += entry.length;
    void this.#flushUnsent();
    return true;
  }

  async appendAfter(name: string, entry: Buffer, position: number): Promise<boolean> {
    const { client } = await this.#nats.context();
    try {
      await client.publish(this.#subjectOf(name), entry, { expect: { lastSubjectSequence: position } });
      return true;
    } catch (error) {
      if (WRONG_REVISION.includes(apiCode(error))) return false;
      throw stateFailure(error, 'write');
    }
  }

  async read(name: string): Promise<LogReading> {
    const entries: Buffer[] = [];
    let position = 0;
    const take = ({ data, seq }: JsMsg): boolean => {
      entries.push(Buffer.from(data));
      position = seq;
      return true;
    };
    const config = { deliver_policy: 'all', filter_subjects: this.#subjectOf(name) } as const;
    try {
      await readStream(await this.#nats.context(), this.#nats.deps.wire.scoped(STREAM), config, take);
      return { entries, position };
    } catch (error) {
      throw stateFailure(error, 'read');
    }
  }

  close(): void {
    this.#closed = true;
    this.#shares.close();
    this.#stopRetry();
    this.#unfollow();
  }

  /** Flushes until nothing is unsent. One flush at a time covers everything before it. */
  async #flushUnsent(): Promise<void> {
    if (this.#flushing) return;
    this.#flushing = true;
    while (this.#unsent > 0) {
      const asked = this.#unsent;
      // If the connection is lost, the client has dropped what it had queued.
      await this.#nats.deps.wire.connection?.flush().catch(() => {});
      this.#unsent -= asked;
    }
    this.#flushing = false;
  }

  async state(): Promise<LogsState> {
    const { manager } = await this.#nats.context();
    const { created, state } = await manager.streams.info(this.#nats.deps.wire.scoped(STREAM)).catch((error) => {
      if (apiCode(error) === NO_STREAM) void this.#make();
      throw error;
    });
    return { incarnation: created, bytes: state.bytes, position: state.last_seq };
  }

  async drop(group: string, upTo: number): Promise<void> {
    const { manager } = await this.#nats.context();
    const filter = this.#subjectOf(`${group}.>`);
    await manager.streams.purge(this.#nats.deps.wire.scoped(STREAM), { filter, seq: upTo + 1 });
  }

  #subjectOf(name: string): string {
    return `${this.#nats.deps.wire.scoped(SUBJECT)}.${name}`;
  }

  async #make(): Promise<void> {
    this.#stopRetry();
    try {
      const { wire } = this.#nats.deps;
      const wanted = { ...CONFIG, max_bytes: this.maxBytes, subjects: [`${wire.scoped(SUBJECT)}.>`] };
      await makeStream(await this.#nats.context(), wire.scoped(STREAM), wanted, ['max_age', 'max_bytes']);
      this.#refused = '';
    } catch (error) {
      this.#warnRefused(error);
      if (!this.#closed) this.#stopRetry = this.#nats.deps.clock.after(RETRY_MS, () => void this.#make());
    }
  }

  #warnRefused(error: unknown): void {
    const { cause } = error as { readonly cause?: unknown };
    if (apiCode(cause) === 0 || String(cause) === this.#refused) return;
    this.#refused = String(cause);
    this.#nats.deps.logger?.warn('stream_copies_refused', { reason: this.#refused, maxBytes: this.maxBytes });
  }
}

const CONFIG = {
  max_msgs_per_subject: MAX_ENTRIES,
  max_age: MAX_AGE_MS * NANOS,
  storage: 'memory',
  retention: 'limits',
  discard: 'old',
  allow_direct: false,
} satisfies Partial<StreamConfig>;
