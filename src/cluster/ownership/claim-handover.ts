import type { ClusterDeps } from '../cluster-deps.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import type { Claim } from './own-claims.ts';
import type { OwnedCalls } from './owned-calls.ts';
import { servesCalls } from './placement.ts';

const LOOK_MS = 50;
/** How long new calls of a barred claim wait at their nodes; with the end of its process, shorter than a call is retried. */
const BAR_MS = 2_500;
/** How long a claim is served after a bar that did not help, before the next one. */
const SERVE_MS = 3_000;
/** Calls younger than this count as likely to end soon. */
const YOUNG_MS = 1_000;
/** So do calls younger than this share of the time since the hand-over began. */
const YOUNG_SHARE = 0.25;

/** Ends what runs here for a claim; resolves when nothing is left. */
export interface ClaimEnd {
  handOver(claim: Claim): Promise<void>;
}

interface Bar {
  until: number;
  nextAt: number;
}

/**
 * Hands over the claims of a draining node, each as soon as no call of it runs. If calls overlap without a pause and all are
 * young, bars the claim: new calls wait at their nodes. A long call may finish. Claims that no other node can serve stay until
 * `close`, and their calls are barred last.
 */
export class ClaimHandover {
  readonly #deps: Pick<ClusterDeps, 'clock' | 'logger'>;
  readonly #owned: OwnedCalls;
  readonly #known: KnownServers;
  readonly #servers: ClaimEnd;
  readonly #bars = new Map<Claim, Bar>();
  readonly #last: Bar = { until: 0, nextAt: 0 };
  readonly #leaving = new Map<Claim, Promise<void>>();
  /** Claims whose processes could not be ended; `close` releases them. */
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

  get inFlight(): number {
    return this.#leaving.size;
  }

  /** Whether new calls of the claim must wait; their callers retry. */
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

  giveUp(claim: Claim): void {
    if (!this.#leaving.has(claim) && !this.#stuck.has(claim)) this.#leave(claim);
  }

  /** Releases the remaining claims; call it after this node's servers have ended. */
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

  /** `since`: start of the oldest call. */
  #bar(bar: Bar, since: number, now: number): void {
    const youngMs = Math.max(YOUNG_MS, (now - this.#begunAt!) * YOUNG_SHARE);
    if (now < bar.nextAt || now - since >= youngMs) return;
    bar.until = now + BAR_MS;
    bar.nextAt = bar.until + SERVE_MS;
  }

  #leave(claim: Claim): void {
    const { logger } = this.#deps;
    const { server, epoch } = claim;
    this.#bars.delete(claim);
    const left = Promise.resolve()
      .then(() => this.#servers.handOver(claim))
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
