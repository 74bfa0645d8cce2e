import type { ClusterDeps } from '../cluster-deps.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import type { Claim } from './own-claims.ts';
import type { OwnedCalls } from './owned-calls.ts';
import { servesCalls } from './placement.ts';

/** How often it is looked which claims are in use. */
const LOOK_MS = 50;
/**
 * For so long new calls to a claim wait at their nodes for the calls under way to end. With what its process takes to end it
 * is less than a call is tried for.
 */
const BAR_MS = 2_500;
/** A claim that was barred in vain is served for so long before it is tried again. */
const SERVE_MS = 3_000;
/** Calls that began less than so long ago are likely to end soon … */
const YOUNG_MS = 1_000;
/** … and so are those that began in the last quarter of the time for which there was always one under way. */
const YOUNG_SHARE = 0.25;

/** Ends what runs of a claim here. Resolves when nothing of it is left. */
export interface ClaimEnd {
  handOver(claim: Claim): Promise<void>;
}

/** When something was barred last, and until when it is. */
interface Bar {
  until: number;
  nextAt: number;
}

/**
 * What a node that drains owns goes to the others claim by claim: what no call runs on at once, the rest as soon as none does.
 * Other nodes may call it without a pause, so that there would never be such an instant: where all calls on a claim have begun
 * a moment ago, the next ones wait at their nodes until these have ended. A call that takes long has its time; what others
 * want of the same claim is served beside it. What no other node has is served to the end, and barred in the same way once
 * nothing else is left.
 */
export class HandingOver {
  readonly #deps: Pick<ClusterDeps, 'clock' | 'logger'>;
  readonly #owned: OwnedCalls;
  readonly #known: KnownServers;
  readonly #servers: ClaimEnd;
  readonly #bars = new Map<Claim, Bar>();
  /** Of all that no other node has. */
  readonly #last: Bar = { until: 0, nextAt: 0 };
  /** What is ending here, to be the others'. */
  readonly #leaving = new Map<Claim, Promise<void>>();
  /** What could not be ended: it goes with the rest at the end of the node. */
  readonly #stuck = new Set<Claim>();
  #begunAt: number | null = null;
  #closed = false;
  #stop: () => void = () => {};

  constructor(deps: Pick<ClusterDeps, 'clock' | 'logger'>, owned: OwnedCalls, known: KnownServers, servers: ClaimEnd) {
    this.#deps = deps;
    this.#owned = owned;
    this.#known = known;
    this.#servers = servers;
  }

  /** Claims that are between this node and the others. */
  get inFlight(): number {
    return this.#leaving.size;
  }

  /** Begins nothing new on this claim now; it is for the caller to try again. */
  isBarred(claim: Claim): boolean {
    if (this.#begunAt === null && this.#leaving.size === 0) return false;
    if (this.#leaving.has(claim) || this.#stuck.has(claim)) return true;
    const now = this.#deps.clock.now();
    if (now < (this.#bars.get(claim)?.until ?? 0)) return true;
    return now < this.#last.until && !this.#known.readyElsewhere(claim.server);
  }

  begin(): void {
    if (this.#begunAt !== null || this.#closed) return;
    this.#begunAt = this.#deps.clock.now();
    this.#look();
  }

  /** Only this claim, and now: nothing that this node could serve is lost by it. */
  giveUp(claim: Claim): void {
    if (!this.#leaving.has(claim) && !this.#stuck.has(claim)) this.#leave(claim);
  }

  /** After the servers of this node have ended: others may have at once what it still owns. */
  async close(): Promise<void> {
    const { claims } = this.#owned;
    this.#closed = true;
    this.#stop();
    await Promise.all(this.#leaving.values());
    await Promise.all(claims.all().map(({ server, key }) => claims.release(server, key, false)));
  }

  #look(): void {
    const { clock } = this.#deps;
    const now = clock.now();
    const running = this.#owned.oldest();
    let left = this.#leaving.size;
    let oldest: number | null = null;
    for (const claim of this.#owned.claims.all()) {
      if (!servesCalls(claim) || this.#leaving.has(claim) || this.#stuck.has(claim)) continue;
      const since = running.get(claim);
      if (this.#known.readyElsewhere(claim.server)) {
        left++;
        if (since === undefined) this.#leave(claim);
        else this.#bar(this.#barOf(claim), since, now);
      } else if (since !== undefined) oldest = Math.min(oldest ?? since, since);
    }
    if (left === 0 && oldest !== null) this.#bar(this.#last, oldest, now);
    this.#stop = clock.after(LOOK_MS, () => this.#look());
  }

  #barOf(claim: Claim): Bar {
    let bar = this.#bars.get(claim);
    if (bar === undefined) this.#bars.set(claim, (bar = { until: 0, nextAt: 0 }));
    return bar;
  }

  /** `since`: when the oldest of the calls began. */
  #bar(bar: Bar, since: number, now: number): void {
    const youngMs = Math.max(YOUNG_MS, (now - this.#begunAt!) * YOUNG_SHARE);
    if (now < bar.nextAt || now - since >= youngMs) return;
    bar.until = now + BAR_MS;
    bar.nextAt = bar.until + SERVE_MS;
  }

  /** No call begins on it from this instant on. */
  #leave(claim: Claim): void {
    const { logger } = this.#deps;
    const { server, epoch } = claim;
    this.#bars.delete(claim);
    const left = Promise.resolve(claim)
      .then((leaving) => this.#servers.handOver(leaving))
      .then(() => this.#owned.claims.handOver(claim))
      .then(() => logger.debug('claim_handed_over', { server, epoch }))
      .catch((error: unknown) => {
        if (this.#begunAt !== null) this.#stuck.add(claim);
        logger.error('claim_not_handed_over', { server, epoch, error });
      })
      .finally(() => this.#leaving.delete(claim));
    this.#leaving.set(claim, left);
  }
}
