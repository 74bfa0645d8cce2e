import type { SubscriptionCounts } from './subscription-counts.ts';

/** What one session is subscribed to by way of this node, and how each is given up again; counted for its principal too. */
export class SessionSubscriptions {
  readonly #counts: SubscriptionCounts;
  readonly #principal: string;
  readonly #leave = new Map<string, () => void>();
  /** Further ones that a server is being asked for. */
  #asking = 0;

  constructor(counts: SubscriptionCounts, principal: string) {
    this.#counts = counts;
    this.#principal = principal;
  }

  get size(): number {
    return this.#leave.size + this.#asking;
  }

  has(name: string): boolean {
    return this.#leave.has(name);
  }

  keep(name: string, leave: () => void): void {
    if (!this.#leave.has(name)) this.#counts.add(this.#principal, 1);
    this.#leave.set(name, leave);
  }

  /** It is not subscribed to any more; what is to be done then, where it was. */
  take(name: string): (() => void) | undefined {
    const leave = this.#leave.get(name);
    if (this.#leave.delete(name)) this.#counts.add(this.#principal, -1);
    return leave;
  }

  takeAll(): readonly (() => void)[] {
    return [...this.#leave.keys()].map((name) => this.take(name)!);
  }

  async whileAsking<T>(further: number, ask: () => Promise<T>): Promise<T> {
    this.#ask(further);
    try {
      return await ask();
    } finally {
      this.#ask(-further);
    }
  }

  #ask(change: number): void {
    this.#asking += change;
    this.#counts.add(this.#principal, change);
  }
}
