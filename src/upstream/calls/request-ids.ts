import type { Random } from '../../model/random.ts';
import { OWN_DIGITS } from '../transport/answered-request.ts';

const LOWEST = OWN_DIGITS / 10;
const LOWEST_PREFIX = 10_000;

/**
 * The ids of a connection's requests, which are its progress tokens too. They are random, so that no client can name the
 * call of another one to the server. Here a request is known by nine digits, which is a small integer and cheap; on the wire
 * five more are before them. A server that cuts numbers to 32 bits gets the nine (decision 062).
 */
export class RequestIds {
  readonly #random: Random;
  readonly #inUse: { get(id: number): unknown };
  /** The server cuts numbers to 32 bits, or may do so. */
  short: boolean;

  constructor(random: Random, inUse: { get(id: number): unknown }, short: boolean) {
    this.#random = random;
    this.#inUse = inUse;
    this.short = short;
  }

  next(): number {
    for (;;) {
      const id = LOWEST + this.#random.below(OWN_DIGITS - LOWEST);
      if (this.#inUse.get(id) === undefined) return id;
    }
  }

  /** What the server gets for it. */
  wire(id: number): string {
    return this.short ? String(id) : `${LOWEST_PREFIX + this.#random.below(9 * LOWEST_PREFIX)}${id}`;
  }
}
