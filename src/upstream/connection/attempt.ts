import type { CloseReason } from '../transport/transport.ts';

/** A place in the start queue, held or waited for by an attempt. */
export interface StartPlace {
  /** Resolves when the attempt has the place or is cancelled. */
  readonly given: Promise<void>;
  /** A call waits for this start. */
  prioritize(): void;
  /** Returns the place, or leaves the queue. */
  leave(): void;
}

/** A call that waits for an attempt. */
export interface WaitingCall {
  /** The call has its outcome and waits no longer. */
  readonly done: boolean;
  /** Milliseconds until its deadline. */
  readonly leftMs: number;
}

/** One attempt to start something. What it opens registers how to undo that: after `cancel` nothing is left (W1.2). */
export class Attempt {
  #undo: ((how: CloseReason) => void) | null = null;
  #closeReason: CloseReason | null = null;
  readonly #started = Promise.withResolvers<void>();
  /** Resolves when the attempt begins. */
  readonly started = this.#started.promise;
  /** The attempt waits for its place, and nothing of it has begun. */
  waiting = true;
  /** Calls that wait for this attempt. */
  readonly calls = new Set<WaitingCall>();
  /** The first attempt that this one consists of. */
  #part: Attempt | null = null;
  /** The attempts that this one is a part of. */
  readonly #parents: Attempt[] = [];
  /** Set by the start queue. */
  place: StartPlace | null = null;

  get cancelled(): boolean {
    return this.#closeReason !== null;
  }

  /** How a connection that was opened for the cancelled attempt is closed. */
  get closeReason(): CloseReason {
    return this.#closeReason ?? 'remove';
  }

  /** Begins the attempt: its time limits start now. */
  begin(): void {
    if (!this.waiting) return;
    this.waiting = false;
    this.#started.resolve();
    for (const parent of this.#parents) parent.begin();
  }

  /** A call waits for this attempt: it gets its place before background starts. */
  prioritize(call: WaitingCall): void {
    if (this.calls.has(call)) return;
    this.calls.add(call);
    if (this.calls.size === 1) this.place?.prioritize();
    this.#part?.prioritize(call);
  }

  /** Makes `part` a part of this attempt, which begins when its first part begins. A call needs only one of the parts. */
  follow(part: Attempt): void {
    this.#part ??= part;
    if (this.#part === part) for (const call of this.calls) part.prioritize(call);
    if (part.waiting) part.#parents.push(this);
    else this.begin();
  }

  /** That part was not enough: another one may replace it. */
  unfollow(part: Attempt): void {
    if (this.#part === part) this.#part = null;
  }

  /** Replaces what `cancel` runs; runs it at once if the attempt is cancelled already. */
  setUndo(undo: ((how: CloseReason) => void) | null): void {
    this.#undo = undo;
    if (this.#closeReason !== null) undo?.(this.#closeReason);
  }

  /** Cancels the attempt. A second call with another reason speeds up the undoing; none follows `interrupt`. */
  cancel(how: CloseReason = 'remove'): void {
    if (this.#closeReason === how || this.#closeReason === 'interrupt') return;
    this.#closeReason = how;
    this.place?.leave();
    this.#undo?.(how);
  }
}
