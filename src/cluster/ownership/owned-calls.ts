import { GatewayError } from '../../model/gateway-error.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Claims } from './claims.ts';
import type { Claim } from './held-claims.ts';

interface Running {
  readonly claim: Claim;
  readonly end: (error: GatewayError) => void;
}

/**
 * Calls to what only this node may own. An answer counts only if the claim still does when it comes; when the claim is
 * lost before, the call ends at once, and whatever the server says to it is not believed any more.
 */
export class OwnedCalls {
  readonly #claims: Claims;
  readonly #running = new Set<Running>();

  constructor(claims: Claims) {
    this.#claims = claims;
  }

  /** `begin` is called at once. */
  run(claim: Claim, begin: () => Promise<Outcome>): Promise<Outcome> {
    return new Promise((resolve) => {
      const running: Running = { claim, end: (error) => this.#end(running, resolve, failure(error)) };
      this.#running.add(running);
      void begin().then((outcome) => {
        const counts = outcome.kind === 'failure' || this.#claims.still(claim);
        this.#end(running, resolve, counts ? outcome : failure(unsure(claim)));
      });
    });
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
