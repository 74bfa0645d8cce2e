import type { Subscriber } from './bus.ts';

const MAX_MESSAGES = 1024;
const MAX_BYTES = 4 * 1024 * 1024;

interface QueuedMessage {
  readonly payload: Buffer;
  readonly from: string;
  readonly subject: string;
}

/** The bounded queue of one subscriber, in order. A slow one loses what waits and gets the count: late hints are worthless. */
export class SubscriptionQueue {
  readonly #subscriber: Subscriber;
  readonly #dropped: (count: number) => void;
  readonly #failed: (error: unknown) => void;
  #waiting: QueuedMessage[] = [];
  #bytes = 0;
  #busy = false;
  #closed = false;

  constructor(subscriber: Subscriber, dropped: (count: number) => void, failed: (error: unknown) => void) {
    this.#subscriber = subscriber;
    this.#dropped = dropped;
    this.#failed = failed;
  }

  push(payload: Buffer, from: string, subject: string): void {
    if (this.#closed) return;
    if (!this.#busy) {
      this.#hand({ payload, from, subject });
      return;
    }
    this.#waiting.push({ payload, from, subject });
    this.#bytes += payload.length;
    if (this.#waiting.length <= MAX_MESSAGES && this.#bytes <= MAX_BYTES) return;
    const { length } = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    this.#dropped(length);
  }

  close(): void {
    this.#closed = true;
    this.#waiting = [];
  }

  #hand({ payload, from, subject }: QueuedMessage): void {
    try {
      const done = this.#subscriber(payload, from, subject);
      if (done === undefined) return;
      this.#busy = true;
      done.catch(this.#failed).finally(() => this.#next());
    } catch (error) {
      this.#failed(error);
    }
  }

  #next(): void {
    this.#busy = false;
    while (!this.#busy && !this.#closed) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#bytes -= next.payload.length;
      this.#hand(next);
    }
  }
}
