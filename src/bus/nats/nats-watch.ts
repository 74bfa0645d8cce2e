import type { JsMsg, PushConsumer } from '@nats-io/jetstream';
import type { StateWatcher } from '../shared-state.ts';
import { type NatsStateDeps, onceMade, type Reach } from './jetstream.ts';
import { PendingRecords } from './pending-records.ts';

const RETRY_MS = 500;

/** Marks deleted records. */
export const OPERATION = 'KV-Operation';

export interface WatchedBucket {
  readonly deps: NatsStateDeps;
  readonly stream: string;
  subject(key: string): string;
  withStream<T>(doing: 'read' | 'write', run: (reach: Reach) => Promise<T>): Promise<T>;
}

interface ListingOptions {
  readonly headersOnly?: boolean;
  /** Of a larger stream, about as many records that were changed last. */
  readonly newest?: number | undefined;
}

interface Running {
  readonly consumer: PushConsumer;
  readonly messages: { stop(): void };
  readonly first: PendingRecords;
}

/** Begins anew after every lost connection: what it missed is unknown. */
export class NatsWatch {
  readonly #bucket: WatchedBucket;
  readonly #pattern: string;
  readonly #options: ListingOptions;
  readonly #watcher: StateWatcher;
  #running: Running | null = null;
  #round = 0;
  #closed = false;
  #unfollow: (() => void) | null = null;
  #stopRetry: (() => void) | null = null;

  constructor(bucket: WatchedBucket, pattern: string, options: ListingOptions, watcher: StateWatcher) {
    this.#bucket = bucket;
    this.#pattern = pattern;
    this.#options = options;
    this.#watcher = watcher;
  }

  /** Rejects with GatewayError if it cannot begin; later it retries until closed. */
  async start(): Promise<void> {
    await this.#begin();
    if (this.#closed) return;
    this.#unfollow = this.#bucket.deps.wire.onChange(({ type }) => {
      if (type === 'connected') this.#again();
    });
  }

  close(): void {
    this.#closed = true;
    this.#stopRetry?.();
    this.#unfollow?.();
    this.#stop();
  }

  #again(): void {
    if (this.#closed) return;
    this.#stopRetry?.();
    this.#begin().catch(() => {
      if (!this.#closed) this.#stopRetry = this.#bucket.deps.clock.after(RETRY_MS, () => this.#again());
    });
  }

  async #begin(): Promise<void> {
    this.#stop();
    const round = this.#round;
    const live = (): boolean => !this.#closed && round === this.#round;
    await this.#bucket.withStream('read', async (reach) => {
      const { client, manager } = reach;
      // Another node may have created it again.
      const { created, state } = await onceMade(reach, await manager.streams.info(this.#bucket.stream));
      const { headersOnly = false, newest = Number.POSITIVE_INFINITY } = this.#options;
      const whole = state.messages <= newest;
      const consumer = await client.consumers.getPushConsumer(this.#bucket.stream, {
        // A bucket has one message for each record.
        ...(whole
          ? { deliver_policy: 'last_per_subject' as const }
          : { deliver_policy: 'by_start_sequence' as const, opt_start_seq: state.last_seq - newest + 1 }),
        // A list would need NATS 2.10.
        filter_subjects: this.#bucket.subject(this.#pattern),
        headers_only: headersOnly,
      });
      const left = (await consumer.info(true)).num_pending;
      const ready = (): void => this.#watcher.onReady?.(created, whole);
      const first = new PendingRecords(consumer, left, this.#bucket.deps.clock, ready);
      if (live()) this.#watcher.onBegin?.();
      const messages = await consumer.consume({
        callback: (message) => {
          if (!live()) return;
          this.#tell(message);
          first.received(message);
        },
      });
      if (!live()) {
        messages.stop();
        return;
      }
      this.#running = { consumer, messages, first };
      first.begin();
    });
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

  #tell(message: JsMsg): void {
    // Copied: a slice would keep the whole text, and keys are kept.
    const key = Buffer.from(message.subject.slice(this.#bucket.subject('').length)).toString();
    if (isRemoval(message.headers?.get(OPERATION))) this.#watcher.gone(key, message.seq);
    else this.#watcher.put({ key, value: Buffer.from(message.data), revision: message.seq });
  }
}

export function isRemoval(operation: string | undefined): boolean {
  return operation === 'DEL' || operation === 'PURGE';
}
