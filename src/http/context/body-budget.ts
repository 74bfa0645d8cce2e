import type { Refusal } from './refusal.ts';

/** A body up to this size is small. */
export const SMALL_BODY_BYTES = 64 * 1024;
/** This part of the budget is reserved for small bodies, so that slow uploads cannot lock out ordinary calls. */
const SMALL_PART = 1 / 8;
const FIRST_SHARE = 16 * 1024;
const DEFAULT_BYTES = 64 * 1024 * 1024;
const HOLD_MS = 30_000;

/**
 * The memory for request bodies that are being received, of one node (decision 061). A body that arrives in pieces holds a
 * share until it is complete, refused or aborted: twice the bytes that have arrived, at most the announced length. The sum
 * of all shares never exceeds the budget.
 */
export class BodyBudget {
  totalBytes: number;
  /** Longest time that a body may hold its share. */
  readonly holdMs: number;
  #heldBytes = 0;
  #refused = 0;

  constructor(totalBytes = DEFAULT_BYTES, holdMs = HOLD_MS) {
    this.totalBytes = totalBytes;
    this.holdMs = holdMs;
  }

  /** Sum of all shares. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Bodies that were refused because the budget was exhausted. */
  get refused(): number {
    return this.#refused;
  }

  /** Whether a body of this announced length, -1 for none, can begin now. */
  hasCapacity(announced: number): boolean {
    return this.#fits(firstShare(announced), announced);
  }

  /** The share once `length` bytes have arrived, grown if necessary; -1 if the budget has no room for that. */
  grow(share: number, length: number, announced: number): number {
    if (length <= share) return share;
    const wanted = Math.max(length, within(Math.max(2 * length, FIRST_SHARE), announced));
    if (!this.#fits(wanted, announced, share)) return -1;
    this.#heldBytes += wanted - share;
    return wanted;
  }

  giveBack(share: number): void {
    this.#heldBytes -= share;
  }

  /** Counts a refusal and returns the answer to a body for which there is no room. */
  refuse(): Refusal {
    this.#refused++;
    return BUDGET_EXHAUSTED;
  }

  #fits(wanted: number, announced: number, share = 0): boolean {
    const isSmall = (announced < 0 ? wanted : announced) <= SMALL_BODY_BYTES;
    const limit = isSmall ? this.totalBytes : this.totalBytes * (1 - SMALL_PART);
    return this.#heldBytes - share + wanted <= limit;
  }
}

function firstShare(announced: number): number {
  return within(FIRST_SHARE, announced);
}

function within(bytes: number, announced: number): number {
  return announced < 0 ? bytes : Math.min(bytes, announced);
}

const BUDGET_EXHAUSTED: Refusal = {
  status: 503,
  code: 'overloaded',
  message: 'too many request bodies are being received at once; try again in a second',
  headers: ['Retry-After', '1'],
};
