import type { CloseReason } from '../transport/transport.ts';

/**
 * One try to bring something up, which can be called off at any moment. Whoever opens things during the try
 * registers how to undo them, so that nothing is left of a try that nobody waits for any more (W1.2).
 */
export class Attempt {
  #undo: ((how: CloseReason) => void) | null = null;
  #how: CloseReason | null = null;

  get cancelled(): boolean {
    return this.#how !== null;
  }

  /** How what was opened for it ends, once nobody waits for that any more. */
  get how(): CloseReason {
    return this.#how ?? 'remove';
  }

  /** Replaces what `cancel` undoes; at once if it was called off already. */
  undoBy(undo: ((how: CloseReason) => void) | null): void {
    this.#undo = undo;
    if (this.#how !== null) undo?.(this.#how);
  }

  /** Once more to hurry what is being undone. */
  cancel(how: CloseReason = 'remove'): void {
    if (this.#how === how || this.#how === 'interrupt') return;
    this.#how = how;
    this.#undo?.(how);
  }
}
