import type { JsMsg, OrderedPushConsumerOptions, PushConsumer } from '@nats-io/jetstream';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { JetStreamContext } from './jetstream.ts';

const POLL_MS = 1_000;
/** Longest wait for a record: after a lost connection, a consumer may deliver the rest much later. */
const SILENT_MS = 5_000;

/** Counts the records that a stream holds when a consumer starts, until all have arrived or the rest certainly never will. */
export class PendingRecords {
  readonly #consumer: Pick<PushConsumer, 'info'>;
  readonly #clock: Clock;
  readonly #ready: () => void;
  #left: number;
  /** Delivery info of the last record. */
  #last: JsMsg['info'] | null = null;
  /** All records have arrived, or the consumer was stopped. */
  done = false;
  #stopLook: (() => void) | null = null;

  constructor(consumer: Pick<PushConsumer, 'info'>, left: number, clock: Clock, ready: () => void) {
    this.#consumer = consumer;
    this.#left = left;
    this.#clock = clock;
    this.#ready = ready;
  }

  /** Called once the consumer delivers records. */
  begin(): void {
    if (this.#left === 0) this.#end();
    else this.#lookLater();
  }

  received({ info }: Pick<JsMsg, 'info'>): void {
    if (this.done) return;
    this.#last = info;
    this.#left--;
    // A record that expired, was evicted or was overwritten meanwhile never arrives.
    if (this.#left === 0 || info.pending === 0) this.#end();
  }

  stop(): void {
    this.done = true;
    this.#stopLook?.();
  }

  #lookLater(): void {
    if (!this.done) this.#stopLook = this.#clock.after(POLL_MS, () => void this.#look());
  }

  /**
   * No message reports a record that expired after the last of the others arrived, and nats-server 2.9 reports in messages what
   * was pending when the consumer started. The state of the consumer itself is right.
   */
  async #look(): Promise<void> {
    try {
      const { name, num_pending: pending, delivered } = await this.#consumer.info();
      const came = this.#last?.consumer === name ? this.#last.deliverySequence : 0;
      if (!this.done && pending === 0 && delivered.consumer_seq <= came) this.#end();
    } catch {
      // The next look asks again, or the watch restarts.
    }
    this.#lookLater();
  }

  #end(): void {
    if (this.done) return;
    this.stop();
    this.#ready();
  }
}

/**
 * Passes the records that a stream holds now to `take`, in order, until it returns false. Rejects with GatewayError NOT_SENT if
 * no record arrives for 5 s.
 */
export async function readStream(
  { client, clock }: JetStreamContext,
  stream: string,
  config: Partial<OrderedPushConsumerOptions>,
  take: (message: JsMsg) => boolean,
): Promise<void> {
  const consumer = await client.consumers.getPushConsumer(stream, config);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // The timeout may reject it before it is awaited.
  promise.catch(() => {});
  let lastReceivedAt = clock.now();
  const wait = (): (() => void) => clock.after(SILENT_MS - (clock.now() - lastReceivedAt), checkSilence);
  const checkSilence = (): void => {
    if (clock.now() - lastReceivedAt < SILENT_MS) stopWait = wait();
    else reject(new GatewayError('NOT_SENT', `${stream} is not read in time`));
  };
  let stopWait = wait();
  const ends = [() => stopWait(), () => void consumer.delete().catch(() => {})];
  try {
    const { num_pending: left } = await consumer.info(true);
    if (left === 0) return;
    const pending = new PendingRecords(consumer, left, clock, resolve);
    const messages = await consumer.consume({
      callback: (message) => {
        if (pending.done) return;
        lastReceivedAt = clock.now();
        if (take(message)) pending.received(message);
        else {
          pending.stop();
          resolve();
        }
      },
    });
    ends.push(
      () => pending.stop(),
      () => messages.stop(),
    );
    pending.begin();
    await promise;
  } finally {
    for (const end of ends) end();
  }
}
