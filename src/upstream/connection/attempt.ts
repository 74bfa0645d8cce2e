import type { CloseReason } from '../transport/transport.ts';

/** What an attempt has, or waits for, in the queue in which processes start. */
export interface StartPlace {
  /** Resolves when the attempt has the place, or was cancelled. */
  readonly given: Promise<void>;
  /** A call waits for this start. */
  prioritize(): void;
  /** Gives it back, or leaves the queue. */
  leave(): void;
}

/** A call that waits for an attempt. */
export interface WaitingCall {
  /** It has its outcome, and waits no longer. */
  readonly done: boolean;
  /** Until its deadline. */
  readonly leftMs: number;
}

/** One try to bring something up. What it opens registers how to undo that: nothing is left when cancelled (W1.2). */
export class Attempt {
  #undo: ((how: CloseReason) => void) | null = null;
  #how: CloseReason | null = null;
  readonly #begun = Promise.withResolvers<void>();
  /** Resolves when it begins. */
  readonly begun = this.#begun.promise;
  /** It waits for its place, and nothing of it has begun. */
  waiting = true;
  /** Those that wait for it. */
  readonly calls = new Set<WaitingCall>();
  /** The first of the attempts that this one is made of. */
  #part: Attempt | null = null;
  /** Those that this one is a part of. */
  readonly #wholes: Attempt[] = [];
  /** Set by the queue. */
  place: StartPlace | null = null;

  get cancelled(): boolean {
    return this.#how !== null;
  }

  /** How what was opened for it ends, once that is not awaited any more. */
  get how(): CloseReason {
    return this.#how ?? 'remove';
  }

  /** Time limits run from now on. */
  begin(): void {
    if (!this.waiting) return;
    this.waiting = false;
    this.#begun.resolve();
    for (const whole of this.#wholes) whole.begin();
  }

  /** A call waits for it: it comes before what starts in the background. */
  prioritize(call: WaitingCall): void {
    if (this.calls.has(call)) return;
    this.calls.add(call);
    if (this.calls.size === 1) this.place?.prioritize();
    this.#part?.prioritize(call);
  }

  /** It is made of this one, and maybe of others: it begins with the first that begins; a call needs only one of them. */
  follow(part: Attempt): void {
    this.#part ??= part;
    if (this.#part === part) for (const call of this.calls) part.prioritize(call);
    if (part.waiting) part.#wholes.push(this);
    else this.begin();
  }

  /** That part was not enough: the next one takes its place. */
  unfollow(part: Attempt): void {
    if (this.#part === part) this.#part = null;
  }

  /** Replaces what `cancel` undoes; at once if it was cancelled already. */
  undoBy(undo: ((how: CloseReason) => void) | null): void {
    this.#undo = undo;
    if (this.#how !== null) undo?.(this.#how);
  }

  /** Once more to hurry what is being undone. */
  cancel(how: CloseReason = 'remove'): void {
    if (this.#how === how || this.#how === 'interrupt') return;
    this.#how = how;
    this.place?.leave();
    this.#undo?.(how);
  }
}
