import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Claims } from './claims.ts';
import type { Claim } from './own-claims.ts';

/** What nothing ran on at one look and at the next is given up. */
const LOOK_MS = 60_000;

/**
 * One that is under way, between those that began before and after it. Linked, not in a Set: the tables that one leaves behind
 * keep ended calls alive past young collections.
 */
class Running {
  before: Running | null = null;
  after: Running | null = null;
  ended = false;
  readonly claim: Claim;
  /** null: it is a stream, without an end of its own. */
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
 * Calls to what only this node may own. An answer counts only if the claim still does when it comes; when the claim is
 * lost before, the call ends at once, and whatever the server says to it is not believed any more.
 */
export class OwnedCalls {
  readonly claims: Claims;
  readonly #clock: Clock;
  #oldest: Running | null = null;
  #youngest: Running | null = null;

  constructor(claims: Claims, clock: Clock) {
    this.claims = claims;
    this.#clock = clock;
  }

  /** `begun`: it has just been. `stays`: it is a stream, without an end of its own. */
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

  /** The claims that calls run on, with the instant in which the oldest of these began. Streams do not count. */
  oldest(): Map<Claim, number> {
    const oldest = new Map<Claim, number>();
    for (const { claim, begunAt } of this.#running()) {
      if (begunAt !== null && begunAt < (oldest.get(claim) ?? Number.POSITIVE_INFINITY)) oldest.set(claim, begunAt);
    }
    return oldest;
  }

  /** The claims that calls or streams run on. */
  used(): Set<Claim> {
    return new Set(this.#running().map(({ claim }) => claim));
  }

  /** These claims are this node's no more. */
  fence(lost: (claim: Claim) => boolean): void {
    for (const running of [...this.#running()]) {
      if (!lost(running.claim)) continue;
      this.#remove(running);
      running.end(failure(unsure(running.claim)));
    }
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
    // Whatever still knows of it keeps no other one.
    running.before = null;
    running.after = null;
  }
}

function unsure({ server }: Claim): GatewayError {
  return new GatewayError('UNKNOWN', `this node ceased to own ${server} while that worked on the call`, { server });
}

/**
 * A session says when it ends, and its claims end with it. That is not known of a principal, or of what a caller without a
 * session named as its own: once their processes have ended for want of use, others may have what they were, and as many as
 * there have ever been take no room here.
 */
export class IdleClaims {
  readonly #owned: OwnedCalls;
  readonly #clock: Clock;
  #idle = new Set<Claim>();
  #stop: () => void = () => {};

  constructor(owned: OwnedCalls, clock: Clock) {
    this.#owned = owned;
    this.#clock = clock;
  }

  start(): void {
    this.#stop = this.#clock.after(LOOK_MS, () => {
      this.#look();
      this.start();
    });
  }

  close(): void {
    this.#stop();
  }

  #look(): void {
    const { claims } = this.#owned;
    const used = this.#owned.used();
    const idle = claims.all().filter((claim) => endsUnsaid(claim) && claim.processes === 0 && !used.has(claim));
    for (const claim of idle) {
      // Kept as one that was owned: its next owner reports that what was there is gone.
      if (this.#idle.has(claim)) void claims.release(claim.server, claim.key, false);
    }
    this.#idle = new Set(idle);
  }
}

function endsUnsaid({ key, client }: Claim): boolean {
  return client !== null && key !== client.sessionId;
}
