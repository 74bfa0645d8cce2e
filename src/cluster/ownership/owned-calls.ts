import { type Clock, every } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { IntegerMap } from '../../model/integer-map.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Claims } from './claims.ts';
import type { Claim } from './own-claims.ts';

/** Interval of checks: a claim without a process or call at two checks in a row is released. */
const LOOK_MS = 60_000;

interface RunningOwned {
  readonly claim: Claim;
  /** Null for a stream. */
  readonly begunAt: number | null;
  readonly end: (outcome: Outcome) => void;
}

/**
 * In-flight calls that need a claim. An answer counts only while this node holds the claim; when it loses the claim, the call
 * ends at once. Claims of principals and named callers have no end of their own, so this class releases them when they are idle.
 * Sessions release theirs.
 */
export class OwnedCalls {
  readonly claims: Claims;
  readonly #clock: Clock;
  readonly #running = new IntegerMap<RunningOwned>();
  #count = 0;
  #idle = new Set<Claim>();

  constructor(claims: Claims, clock: Clock) {
    this.claims = claims;
    this.#clock = clock;
  }

  start(): void {
    every(this.#clock, LOOK_MS, () => this.#releaseIdle());
  }

  /** `stays`: the call is a stream. */
  run(claim: Claim, begun: Promise<Outcome>, stays = false): Promise<Outcome> {
    const number = ++this.#count;
    const { promise, resolve: end } = Promise.withResolvers<Outcome>();
    this.#running.set(number, { claim, begunAt: stays ? null : this.#clock.now(), end });
    void begun.then((outcome) => {
      if (!this.#running.delete(number)) return;
      if (outcome.kind === 'answer' || outcome.error.outcome === 'UNKNOWN') claim.used = true;
      const counts = outcome.kind === 'failure' || this.claims.holds(claim);
      end(counts ? outcome : failure(unsure(claim)));
    });
    return promise;
  }

  /** Start of the oldest call of each claim, without streams. */
  oldest(): Map<Claim, number> {
    const oldest = new Map<Claim, number>();
    for (const { claim, begunAt } of this.#running.values()) {
      if (begunAt !== null && begunAt < (oldest.get(claim) ?? Number.POSITIVE_INFINITY)) oldest.set(claim, begunAt);
    }
    return oldest;
  }

  /** Claims with a call or stream in flight. */
  used(): Set<Claim> {
    return new Set(this.#running.values().map(({ claim }) => claim));
  }

  fence(lost: (claim: Claim) => boolean): void {
    for (const number of this.#running.numbers()) {
      const { claim, end } = this.#running.get(number)!;
      if (!lost(claim)) continue;
      this.#running.delete(number);
      end(failure(unsure(claim)));
    }
  }

  #releaseIdle(): void {
    const used = this.used();
    const idle = this.claims
      .all()
      .filter((claim) => releasedWhenIdle(claim) && claim.processes === 0 && !used.has(claim));
    for (const claim of idle) {
      // Keep the record: it makes the next owner report the loss of state.
      if (this.#idle.has(claim)) void this.claims.release(claim.server, claim.key, false);
    }
    this.#idle = new Set(idle);
  }
}

function unsure({ server }: Claim): GatewayError {
  return new GatewayError('UNKNOWN', `this node lost ${server} while ${server} worked on the call`, { server });
}

function releasedWhenIdle({ key, client }: Claim): boolean {
  return client !== null && key !== client.sessionId;
}
