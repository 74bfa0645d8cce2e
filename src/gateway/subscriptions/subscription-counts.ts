/** How many resources the sessions of each principal are subscribed to here, or are about to be. */
export class SubscriptionCounts {
  readonly #counts = new Map<string, number>();

  of(principal: string): number {
    return this.#counts.get(principal) ?? 0;
  }

  add(principal: string, change: number): void {
    const count = this.of(principal) + change;
    if (count > 0) this.#counts.set(principal, count);
    else this.#counts.delete(principal);
  }
}
