import type { Random } from '../../model/random.ts';
import { isText, OWN_DIGITS } from '../transport/in-flight.ts';
import type { PendingById } from './pending.ts';

/** Longest id of ours that can come back. */
const MAX_DIGITS = 14;

/** The short id in the lexeme of an id that a server sent back; -1 for anything but a plain integer. */
export function ownId(bytes: Buffer, start: number, end: number): number {
  const length = end - start;
  if (start < 0 || length < 1 || length > MAX_DIGITS || bytes[start] === 0x30) return -1;
  let id = 0;
  for (let at = start; at < end; at++) {
    const digit = bytes[at]! - 0x30;
    if (digit < 0 || digit > 9) return -1;
    id = id * 10 + digit;
  }
  return id % OWN_DIGITS;
}

/** The request in flight that the lexeme names; 0 for none (F10: a wrong id is dropped, never guessed at). */
export function namedRequest(pending: PendingById, bytes: Buffer, start: number, end: number): number {
  const id = ownId(bytes, start, end);
  const wire = pending.get(id)?.wire;
  return wire !== undefined && isText(bytes, start, end, wire) ? id : 0;
}

const LOWEST = OWN_DIGITS / 10;
const LOWEST_PREFIX = 10_000;
const digits = Buffer.alloc(MAX_DIGITS);

/** The number's digits, so that the last one is before `end`. Returns where they begin. */
function writeDigits(value: number, end: number): number {
  let at = end;
  for (let rest = value; rest > 0; rest = (rest / 10) | 0) digits[--at] = 0x30 + (rest % 10);
  return at;
}

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

  /**
   * What the server gets for it. The digits are written one by one because V8 keeps the text of each number that it
   * converts in a cache: with random numbers every text outlives the call, which doubled the time of its collections.
   */
  wire(id: number): string {
    let start = writeDigits(id, MAX_DIGITS);
    if (!this.short) start = writeDigits(LOWEST_PREFIX + this.#random.below(9 * LOWEST_PREFIX), start);
    return digits.toString('latin1', start);
  }
}
