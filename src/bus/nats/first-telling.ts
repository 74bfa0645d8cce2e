import type { JsMsg, PushConsumer } from '@nats-io/jetstream';
import type { Clock } from '../../model/clock.ts';

const LOOK_MS = 1_000;

/** What is in a bucket when a watch of it begins, until all of that was told. */
export class FirstTelling {
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

  told({ info }: Pick<JsMsg, 'info'>): void {
    if (this.#over) return;
    this.#last = info;
    this.#left--;
    // A record that ran out of time, or was written again, while it was to be told never comes.
    if (this.#left === 0 || info.pending === 0) this.#end();
  }

  /** Whoever watches does so no more. */
  stop(): void {
    this.#over = true;
    this.#stopLook?.();
  }

  #lookLater(): void {
    if (!this.#over) this.#stopLook = this.#clock.after(LOOK_MS, () => void this.#look());
  }

  /** Nor does one that ran out of time after the last of the others was told, and no message says so. */
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
