import type { Random } from '../../model/random.ts';

/** So many blocks begin anew with every loss of the store's records. */
const ERA = 2 ** 16;
/** How many eras are passed over at a time: two nodes that have not heard of each other do not begin the same one. */
const MOST_PASSED = 16;
/** From here on are blocks that no store gave out. */
const APART = 2 ** 26;

/**
 * Numbers for blocks of request ids, of which none may be given out twice in a session of a server's. While the store has
 * its record of the session, it counts them. When that was lost, as often as it is, the count goes on above all that is known.
 */
export class IdBlocks {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Where the count goes on that this node saw at `seen` last; others may have seen it higher in the same era. */
  after(seen: number): number {
    const passed = 1 + Math.floor(this.#random.unit() * MOST_PASSED);
    const next = (Math.floor(seen / ERA) + passed) * ERA;
    return next < APART ? next : this.apart();
  }

  /** One that nobody was given, for a node on its own. */
  apart(): number {
    return APART + Math.floor(this.#random.unit() * APART);
  }
}
