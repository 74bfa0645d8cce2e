export interface TurnBudgetOptions {
  /** For how long one turn of the event loop takes in requests without complaint. */
  readonly budgetMs?: number;
  /** Only when no turn for so long kept to it is anything refused: bursts and cold starts pass. */
  readonly patienceMs?: number;
  readonly now?: () => number;
}

const BUDGET_MS = 20;
const PATIENCE_MS = 500;
const NEVER = -1;

/**
 * Admission by event-loop delay (faults.md §5, G20). All requests that have arrived are handed out in one turn of the
 * loop, and until it ends nothing else moves: no answer of a server, no timer. When turn after turn has more to take
 * in than its budget allows, the rest of each turn's requests are refused at once, which is cheap, until one turn keeps
 * to its budget again. A burst is never refused, and what comes first in a turn is always taken in.
 */
export class TurnBudget {
  readonly #budgetMs: number;
  readonly #patienceMs: number;
  readonly #now: () => number;
  readonly #end = (): void => {
    if (!this.#exceeded) this.#overSince = NEVER;
    this.#begun = false;
    this.#exceeded = false;
  };
  #begun = false;
  #since = 0;
  #exceeded = false;
  #overSince = NEVER;

  constructor(options: TurnBudgetOptions = {}) {
    this.#budgetMs = options.budgetMs ?? BUDGET_MS;
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Whether one more request may be taken in during this turn. */
  admits(): boolean {
    const now = this.#now();
    if (!this.#begun) {
      this.#begun = true;
      this.#since = now;
      // Runs when everything that had arrived has been handed out.
      setImmediate(this.#end);
      return true;
    }
    if (now - this.#since < this.#budgetMs) return true;
    this.#exceeded = true;
    if (this.#overSince === NEVER) this.#overSince = now;
    return now - this.#overSince < this.#patienceMs;
  }
}
