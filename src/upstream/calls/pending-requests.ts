import { ByNumber } from '../../model/by-number.ts';
import type { Clock } from '../../model/clock.ts';
import { LISTEN } from '../../protocol/methods.ts';
import type { Pending, PendingById } from './pending.ts';

/** The requests that one connection has in flight, by our ids, and who waits until there are none. */
export class PendingRequests {
  readonly #clock: Clock;
  readonly #pending = new ByNumber<Pending>();
  readonly #idle = new Set<() => void>();
  /** Of these: streams that stay open and keep the server busy with nothing. */
  #listens = 0;
  /** Work of several requests that is under way. */
  #works = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get byId(): PendingById {
    return this.#pending;
  }

  /** How much the server has to do, for comparison. */
  get load(): number {
    return this.#pending.size - this.#listens;
  }

  /** But for our own stream that listens for changes. */
  get inFlight(): number {
    let count = 0;
    for (const { exchange, method } of this.#pending.values()) if (exchange !== null || method !== LISTEN) count++;
    return count;
  }

  /** Whether some are of clients, not of the gateway's own. */
  get forClients(): boolean {
    return this.#pending.values().some(({ exchange }) => exchange !== null);
  }

  /** Oldest first. */
  get ids(): readonly number[] {
    return this.#pending.numbers();
  }

  get(id: number): Pending | undefined {
    return this.#pending.get(id);
  }

  add(id: number, pending: Pending): void {
    this.#pending.set(id, pending);
    if (pending.method === LISTEN) this.#listens++;
  }

  /** It is over, one way or the other. False when it was not in flight. */
  remove(id: number): boolean {
    const pending = this.#pending.get(id);
    if (pending === undefined) return false;
    this.#pending.delete(id);
    if (pending.method === LISTEN) this.#listens--;
    this.#tellIdle();
    return true;
  }

  /** Work of several requests, one after the other: between two of them nothing is in flight, and more is to come. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#works++;
    try {
      return await work();
    } finally {
      this.#works--;
      this.#tellIdle();
    }
  }

  /** All are over; whoever waits for that is told by `settle`. */
  takeAll(): readonly Pending[] {
    const all = this.#pending.inOrder();
    this.#pending.clear();
    this.#listens = 0;
    return all;
  }

  settle(): void {
    for (const idle of this.#idle) idle();
  }

  /** Resolves when nothing is in flight but open subscriptions, at the latest after `deadlineMs`. */
  async drained(deadlineMs: number): Promise<void> {
    if (!this.#busy()) return;
    await new Promise<void>((resolve) => {
      const idle = (): void => {
        this.#idle.delete(idle);
        disarm();
        resolve();
      };
      const disarm = this.#clock.after(deadlineMs, idle);
      this.#idle.add(idle);
    });
  }

  #tellIdle(): void {
    if (this.#idle.size > 0 && !this.#busy()) for (const idle of this.#idle) idle();
  }

  #busy(): boolean {
    if (this.#works > 0) return true;
    for (const pending of this.#pending.values()) if (pending.method !== LISTEN) return true;
    return false;
  }
}
