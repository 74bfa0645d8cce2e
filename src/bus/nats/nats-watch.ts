import type { JsMsg, PushConsumer } from '@nats-io/jetstream';
import type { Clock } from '../../model/clock.ts';
import type { StateWatcher } from '../shared-state.ts';
import { type NatsStateDeps, onceMade, type Reach } from './jetstream.ts';

const RETRY_MS = 500;

/** The header in which JetStream's key-value stores mark records that are gone. */
export const OPERATION = 'KV-Operation';

/** What a watch needs of its bucket. */
export interface WatchedBucket {
  readonly deps: NatsStateDeps;
  readonly stream: string;
  subject(key: string): string;
  /** Runs an operation; where the bucket is gone, makes it again first. */
  withStream<T>(doing: 'read' | 'write', run: (reach: Reach) => Promise<T>): Promise<T>;
}

interface Running {
  readonly consumer: PushConsumer;
  readonly messages: { stop(): void };
  readonly first: FirstTelling;
}

/** One watch of a bucket. It begins anew whenever the connection was lost: what it missed cannot be known otherwise. */
export class NatsWatch {
  readonly #bucket: WatchedBucket;
  readonly #pattern: string;
  readonly #headersOnly: boolean;
  readonly #watcher: StateWatcher;
  #running: Running | null = null;
  #round = 0;
  #closed = false;
  #unfollow: (() => void) | null = null;
  #stopRetry: (() => void) | null = null;

  constructor(bucket: WatchedBucket, pattern: string, headersOnly: boolean, watcher: StateWatcher) {
    this.#bucket = bucket;
    this.#pattern = pattern;
    this.#headersOnly = headersOnly;
    this.#watcher = watcher;
  }

  /** Rejects with GatewayError when it cannot begin; later it is tried until it is closed. */
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
      // Another node may have made it anew: what is listed now is of this making.
      const { created } = await onceMade(reach, await manager.streams.info(this.#bucket.stream));
      const consumer = await client.consumers.getPushConsumer(this.#bucket.stream, {
        deliver_policy: 'last_per_subject',
        // In a list it would need a server of 2.10.
        filter_subjects: this.#bucket.subject(this.#pattern),
        headers_only: this.#headersOnly,
      });
      const left = (await consumer.info(true)).num_pending;
      const first = new FirstTelling(consumer, left, this.#bucket.deps.clock, () => this.#watcher.onReady?.(created));
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
    // A part of a text keeps all of it; keys are kept, and there are many.
    const key = Buffer.from(message.subject.slice(this.#bucket.subject('').length)).toString();
    if (isRemoval(message.headers?.get(OPERATION))) this.#watcher.gone(key, message.seq);
    else this.#watcher.put({ key, value: Buffer.from(message.data), revision: message.seq });
  }
}

/** Whether an operation header marks a record that is gone. */
export function isRemoval(operation: string | undefined): boolean {
  return operation === 'DEL' || operation === 'PURGE';
}

const LOOK_MS = 1_000;

/** What is in a bucket when a watch of it begins, until all of that was listed. */
class FirstTelling {
  readonly #consumer: Pick<PushConsumer, 'info'>;
  readonly #clock: Clock;
  readonly #ready: () => void;
  #left: number;
  /** The last that came. */
  #last: JsMsg['info'] | null = null;
  #over = false;
  #stopLook: (() => void) | null = null;

  constructor(consumer: Pick<PushConsumer, 'info'>, left: number, clock: Clock, ready: () => void) {
    this.#consumer = consumer;
    this.#left = left;
    this.#clock = clock;
    this.#ready = ready;
  }

  /** From now on records come. */
  begin(): void {
    if (this.#left === 0) this.#end();
    else this.#lookLater();
  }

  received({ info }: Pick<JsMsg, 'info'>): void {
    if (this.#over) return;
    this.#last = info;
    this.#left--;
    // A record that ran out of time, or was written again, while it was to be listed never comes.
    if (this.#left === 0 || info.pending === 0) this.#end();
  }

  /** The watch has ended. */
  stop(): void {
    this.#over = true;
    this.#stopLook?.();
  }

  #lookLater(): void {
    if (!this.#over) this.#stopLook = this.#clock.after(LOOK_MS, () => void this.#look());
  }

  /** Nor does one that ran out of time after the last of the others was listed, and no message says so. */
  async #look(): Promise<void> {
    try {
      const { name, num_pending: pending, delivered } = await this.#consumer.info();
      const came = this.#last?.consumer === name ? this.#last.deliverySequence : 0;
      if (!this.#over && pending === 0 && delivered.consumer_seq <= came) this.#end();
    } catch {
      // It is asked again, or the watch begins anew.
    }
    this.#lookLater();
  }

  #end(): void {
    if (this.#over) return;
    this.stop();
    this.#ready();
  }
}
