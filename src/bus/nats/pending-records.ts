import type { JsMsg, OrderedPushConsumerOptions, PushConsumer } from '@nats-io/jetstream';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Reach } from './jetstream.ts';

const LOOK_MS = 1_000;
/** Without a record. A consumer whose connection was lost may deliver the rest much later. */
const SILENT_MS = 5_000;

/**
 * The records that a stream has when a consumer of it begins, until all of them came or it is certain that the rest never
 * will.
 */
export class PendingRecords {
  readonly #consumer: Pick<PushConsumer, 'info'>;
  readonly #clock: Clock;
  readonly #ready: () => void;
  #left: number;
  /** The last that came. */
  #last: JsMsg['info'] | null = null;
  /** All came, or the consumer was stopped. */
  over = false;
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
    if (this.over) return;
    this.#last = info;
    this.#left--;
    // A record that ran out of time, fell out or was written again meanwhile never comes.
    if (this.#left === 0 || info.pending === 0) this.#end();
  }

  stop(): void {
    this.over = true;
    this.#stopLook?.();
  }

  #lookLater(): void {
    if (!this.over) this.#stopLook = this.#clock.after(LOOK_MS, () => void this.#look());
  }

  /**
   * A record that ran out of time after the last of the others came is in no message, and nats-server 2.9 says in messages
   * what was pending when the consumer began. The consumer's own state is right.
   */
  async #look(): Promise<void> {
    try {
      const { name, num_pending: pending, delivered } = await this.#consumer.info();
      const came = this.#last?.consumer === name ? this.#last.deliverySequence : 0;
      if (!this.over && pending === 0 && delivered.consumer_seq <= came) this.#end();
    } catch {
      // It is asked again, or the watch begins anew.
    }
    this.#lookLater();
  }

  #end(): void {
    if (this.over) return;
    this.stop();
    this.#ready();
  }
}

/**
 * Passes the records that a stream has now to `take`, in order, until it returns false. Rejects with GatewayError NOT_SENT if
 * nothing comes for 5 s.
 */
export async function readStream(
  { client, clock }: Reach,
  stream: string,
  config: Partial<OrderedPushConsumerOptions>,
  take: (message: JsMsg) => boolean,
): Promise<void> {
  const consumer = await client.consumers.getPushConsumer(stream, config);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // The time may run out before it is awaited.
  promise.catch(() => {});
  let heardAt = clock.now();
  const wait = (): (() => void) => clock.after(SILENT_MS - (clock.now() - heardAt), look);
  const look = (): void => {
    if (clock.now() - heardAt < SILENT_MS) stopWait = wait();
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
        if (pending.over) return;
        heardAt = clock.now();
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
