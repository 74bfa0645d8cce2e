import type { Clock } from '../../model/clock.ts';
import type { Claim } from './held-claims.ts';
import type { OwnedCalls } from './owned-calls.ts';

/** What nothing ran on at one look and at the next is given up. */
const LOOK_MS = 60_000;

/**
 * A session says when it ends, and its claims end with it. Nobody says that of a principal, or of what a caller without a
 * session named as its own: once their processes have ended for want of use, others may have what they were, and as many as
 * there have ever been take no room here.
 */
export class IdleClaims {
  readonly #owned: OwnedCalls;
  readonly #clock: Clock;
  #idle = new Set<Claim>();
  #stop: () => void = () => {};

  constructor(owned: OwnedCalls, clock: Clock) {
    this.#owned = owned;
    this.#clock = clock;
  }

  start(): void {
    this.#stop = this.#clock.after(LOOK_MS, () => {
      this.#look();
      this.start();
    });
  }

  close(): void {
    this.#stop();
  }

  #look(): void {
    const { claims } = this.#owned;
    const used = this.#owned.used();
    const idle = claims.all().filter((claim) => endsUnsaid(claim) && claim.processes === 0 && !used.has(claim));
    for (const claim of idle) {
      // Kept as one that was owned: whoever has it next is told that what was there is gone.
      if (this.#idle.has(claim)) void claims.release(claim.server, claim.key, false);
    }
    this.#idle = new Set(idle);
  }
}

function endsUnsaid({ key, client }: Claim): boolean {
  return client !== null && key !== client.sessionId;
}
