import type { Clock } from '../../model/clock.ts';

/** What could not be started here for so long is left to the other nodes … */
export const GIVE_UP_MS = 15_000;
/** … and this one leaves it to them for so long: a little longer than that, so that the next one has had its try. */
export const PAUSE_MS = 18_000;

/** When other nodes are to have a try at what this one owns and cannot start. */
export class StartFailures {
  readonly #clock: Clock;
  readonly #failingSince = new Map<string, number>();
  readonly #pausedUntil = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Asked at every look at what this node has. */
  isLong(server: string, failing: boolean): boolean {
    const now = this.#clock.now();
    const since = failing ? (this.#failingSince.get(server) ?? now) : null;
    if (since === null) this.#failingSince.delete(server);
    else this.#failingSince.set(server, since);
    return since !== null && now - since >= GIVE_UP_MS;
  }

  /** It is left to the others now. */
  gaveUp(server: string): void {
    this.#failingSince.delete(server);
    this.#pausedUntil.set(server, this.#clock.now() + PAUSE_MS);
  }

  /** It is for others to take, if there are any. */
  paused(server: string): boolean {
    const until = this.#pausedUntil.get(server);
    if (until !== undefined && this.#clock.now() >= until) this.#pausedUntil.delete(server);
    return this.#pausedUntil.has(server);
  }

  /** It runs here, or is another one from now on. */
  forget(server: string): void {
    this.#failingSince.delete(server);
    this.#pausedUntil.delete(server);
  }
}
