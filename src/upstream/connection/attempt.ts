/**
 * One try to bring something up, which can be called off at any moment. Whoever opens things during the try
 * registers how to undo them, so that nothing is left of a try that nobody waits for any more (W1.2).
 */
export class Attempt {
  #undo: (() => void) | null = null;
  #cancelled = false;

  get cancelled(): boolean {
    return this.#cancelled;
  }

  /** Replaces what `cancel` undoes; at once if it was called off already. */
  undoBy(undo: (() => void) | null): void {
    this.#undo = undo;
    if (this.#cancelled) this.#run();
  }

  cancel(): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    this.#run();
  }

  #run(): void {
    const undo = this.#undo;
    this.#undo = null;
    undo?.();
  }
}
