import type { Random } from '../../model/random.ts';

/**
 * The ids of a connection's requests, which are its progress tokens too. They are random, so that no client can name the
 * call of another one to the server. What cuts numbers to 32 bits gets short ones (decision 062).
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
      const id = this.short ? cutId(this.#random.id()) : this.#random.id();
      if (this.#inUse.get(id) === undefined) return id;
    }
  }
}

/** The id as it comes back from a server that keeps 32 bits of it. */
export function cutId(id: number): number {
  return id | 0;
}
