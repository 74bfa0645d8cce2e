import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Claims } from './claims.ts';
import type { Claim } from './held-claims.ts';

interface Running {
  readonly claim: Claim;
  /** null: it goes on until somebody ends it. */
  readonly begunAt: number | null;
  readonly end: (error: GatewayError) => void;
}

/**
 * Calls to what only this node may own. An answer counts only if the claim still does when it comes; when the claim is
 * lost before, the call ends at once, and whatever the server says to it is not believed any more.
 */
export class OwnedCalls {
  readonly claims: Claims;
  readonly #clock: Clock;
  readonly #running = new Set<Running>();

  constructor(claims: Claims, clock: Clock) {
    this.claims = claims;
    this.#clock = clock;
  }

  /** `begin` is called at once. `stays`: it is a stream, which somebody has to end. */
  run(claim: Claim, begin: () => Promise<Outcome>, stays = false): Promise<Outcome> {
    return new Promise((resolve) => {
      const begunAt = stays ? null : this.#clock.now();
      const running: Running = { claim, begunAt, end: (error) => this.#end(running, resolve, failure(error)) };
      this.#running.add(running);
      void begin().then((outcome) => {
        const counts = outcome.kind === 'failure' || this.claims.still(claim);
        this.#end(running, resolve, counts ? outcome : failure(unsure(claim)));
      });
    });
  }

  /** The claims that calls run on, with the instant in which the oldest of these began. Streams do not count. */
  oldest(): Map<Claim, number> {
    const oldest = new Map<Claim, number>();
    for (const { claim, begunAt } of this.#running) {
      if (begunAt !== null && !oldest.has(claim)) oldest.set(claim, begunAt);
    }
    return oldest;
  }

  /** These claims are this node's no more. */
  fence(lost: (claim: Claim) => boolean): void {
    for (const running of [...this.#running]) if (lost(running.claim)) running.end(unsure(running.claim));
  }

  #end(running: Running, resolve: (outcome: Outcome) => void, outcome: Outcome): void {
    if (this.#running.delete(running)) resolve(outcome);
  }
}

function unsure({ server }: Claim): GatewayError {
  return new GatewayError('UNKNOWN', `this node lost its lease while ${server} worked on the call`, { server });
}
