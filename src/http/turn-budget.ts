/** Of one turn of the event loop: taking in more requests than this would make everybody wait, whatever they wait for. */
const BUDGET_MS = 10;

/**
 * Admission by event-loop delay (faults.md §5, G20). All requests that have arrived are handed out in one turn of the
 * loop, and until it ends nothing else moves: no answer of a server, no timer. So a turn takes in requests for so long
 * and no longer; the rest of them are refused at once, which is cheap, and told to come again. An idle gateway never
 * refuses: a turn that takes in one request takes it in whatever it costs.
 */
export class TurnBudget {
  readonly #budgetMs: number;
  readonly #now: () => number;
  readonly #end = (): void => {
    this.#begun = false;
  };
  #begun = false;
  #since = 0;

  constructor(budgetMs: number = BUDGET_MS, now: () => number = () => performance.now()) {
    this.#budgetMs = budgetMs;
    this.#now = now;
  }

  /** Whether one more request may be taken in during this turn. */
  admits(): boolean {
    const now = this.#now();
    if (this.#begun) return now - this.#since < this.#budgetMs;
    this.#begun = true;
    this.#since = now;
    // Runs when everything that had arrived has been handed out.
    setImmediate(this.#end);
    return true;
  }
}
