import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Claims } from './claims.ts';
import type { Claim } from './own-claims.ts';

/** A claim without a process at two looks is given up. */
const LOOK_MS = 60_000;

/** A running call, linked and not in a Set: a Set's discarded tables keep ended calls alive past young collections. */
class Running {
  before: Running | null = null;
  after: Running | null = null;
  ended = false;
  readonly claim: Claim;
  /** Null for a stream. */
  readonly begunAt: number | null;
  readonly outcome: Promise<Outcome>;
  end!: (outcome: Outcome) => void;

  constructor(claim: Claim, begunAt: number | null) {
    this.claim = claim;
    this.begunAt = begunAt;
    this.outcome = new Promise((resolve) => {
      this.end = resolve;
    });
  }
}

/**
 * Calls to what only one node may own. An answer counts only if the claim still holds; if it is lost, the call ends at once.
 * Claims of principals and named callers have no end of their own: they are released when their processes ended for lack of use.
 * Sessions release theirs.
 */
export class OwnedCalls {
  readonly claims: Claims;
  readonly #clock: Clock;
  #oldest: Running | null = null;
  #youngest: Running | null = null;
  #idle = new Set<Claim>();
  #stop: () => void = () => {};

  constructor(claims: Claims, clock: Clock) {
    this.claims = claims;
    this.#clock = clock;
  }

  start(): void {
    this.#stop = this.#clock.after(LOOK_MS, () => {
      this.#releaseIdle();
      this.start();
    });
  }

  close(): void {
    this.#stop();
  }

  /** `stays`: a stream. */
  run(claim: Claim, begun: Promise<Outcome>, stays = false): Promise<Outcome> {
    const running = new Running(claim, stays ? null : this.#clock.now());
    this.#add(running);
    void begun.then((outcome) => {
      if (running.ended) return;
      this.#remove(running);
      if (outcome.kind === 'answer' || outcome.error.outcome === 'UNKNOWN') claim.used = true;
      const counts = outcome.kind === 'failure' || this.claims.still(claim);
      running.end(counts ? outcome : failure(unsure(claim)));
    });
    return running.outcome;
  }

  /** Beginning of the oldest call of each claim, without streams. */
  oldest(): Map<Claim, number> {
    const oldest = new Map<Claim, number>();
    for (const { claim, begunAt } of this.#running()) {
      if (begunAt !== null && begunAt < (oldest.get(claim) ?? Number.POSITIVE_INFINITY)) oldest.set(claim, begunAt);
    }
    return oldest;
  }

  /** With streams. */
  used(): Set<Claim> {
    return new Set(this.#running().map(({ claim }) => claim));
  }

  fence(lost: (claim: Claim) => boolean): void {
    for (const running of [...this.#running()]) {
      if (!lost(running.claim)) continue;
      this.#remove(running);
      running.end(failure(unsure(running.claim)));
    }
  }

  #releaseIdle(): void {
    const used = this.used();
    const idle = this.claims.all().filter((claim) => endsUnsaid(claim) && claim.processes === 0 && !used.has(claim));
    for (const claim of idle) {
      // Not deleted: the next owner reports the loss.
      if (this.#idle.has(claim)) void this.claims.release(claim.server, claim.key, false);
    }
    this.#idle = new Set(idle);
  }

  *#running(): Generator<Running, void> {
    for (let at = this.#oldest; at !== null; at = at.after) yield at;
  }

  #add(running: Running): void {
    running.before = this.#youngest;
    if (this.#youngest === null) this.#oldest = running;
    else this.#youngest.after = running;
    this.#youngest = running;
  }

  #remove(running: Running): void {
    const { before, after } = running;
    running.ended = true;
    if (before === null) this.#oldest = after;
    else before.after = after;
    if (after === null) this.#youngest = before;
    else after.before = before;
    // A linked neighbour would keep it alive.
    running.before = null;
    running.after = null;
  }
}

function unsure({ server }: Claim): GatewayError {
  return new GatewayError('UNKNOWN', `this node ceased to own ${server} while that worked on the call`, { server });
}

function endsUnsaid({ key, client }: Claim): boolean {
  return client !== null && key !== client.sessionId;
}
