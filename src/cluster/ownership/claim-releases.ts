import { fencingToken } from '../store-records.ts';
import { type ClaimContext, claimText, readClaim, recordKey } from './claim-record.ts';
import type { Claim } from './own-claims.ts';

const RETRY_MS = 1_000;
const MAX_PENDING = 50_000;

type Released = Pick<Claim, 'server' | 'key' | 'epoch' | 'since' | 'revision'>;

/**
 * Releases claims that this node has given up. Until the store accepts the release, the record names this node and is valid while
 * its lease is. A release is retried until it is written or another node has the claim.
 */
export class ClaimReleases {
  readonly #context: ClaimContext;
  /** Pending releases; the value says whether to delete the record. */
  readonly #pending = new Map<Released, boolean>();
  #armed = false;

  constructor(context: ClaimContext) {
    this.#context = context;
  }

  /** Resolves after the first attempt. */
  async now(claim: Released, forget: boolean): Promise<void> {
    const freed = await this.#write(claim, forget, claim.revision).catch(() => false);
    if (!freed) this.later(claim, forget);
  }

  /** Queues a release, which frees the record only if it still belongs to this claim. */
  later(claim: Released, forget: boolean): void {
    this.#pending.set(claim, forget);
    const [oldest] = this.#pending.keys();
    if (this.#pending.size > MAX_PENDING && oldest !== undefined) {
      this.#pending.delete(oldest);
      this.#context.deps.logger.warn('claim_not_released', { server: oldest.server, epoch: oldest.epoch });
    }
    this.#arm();
  }

  forgetAll(): void {
    this.#pending.clear();
  }

  #arm(): void {
    if (this.#armed || this.#pending.size === 0) return;
    this.#armed = true;
    this.#context.deps.clock.after(RETRY_MS, () => {
      void this.#retry().finally(() => {
        this.#armed = false;
        this.#arm();
      });
    });
  }

  async #retry(): Promise<void> {
    const { logger } = this.#context.deps;
    for (const [claim, forget] of [...this.#pending]) {
      // Without a lease any node may take the claim.
      if (!this.#context.lease.held) return;
      try {
        if (await this.#free(claim, forget)) this.#pending.delete(claim);
      } catch (error) {
        logger.debug('claim_not_released', { server: claim.server, error: String(error) });
        return;
      }
    }
  }

  /** Reads the record first: an earlier attempt may have freed it, or this node may have written the claim again. */
  async #free(claim: Released, forget: boolean): Promise<boolean> {
    // In another incarnation of the store the revision may belong to a later claim.
    if (claim.epoch !== fencingToken(this.#context.store.incarnation, claim.since)) return true;
    const present = await this.#context.store.get(recordKey(claim));
    if (present === null) return true;
    const { peer, since } = readClaim(present);
    if (peer !== this.#context.deps.bus.peer || (since ?? present.revision) !== claim.since) return true;
    return this.#write(claim, forget, present.revision);
  }

  async #write(claim: Released, forget: boolean, revision: number): Promise<boolean> {
    const name = recordKey(claim);
    if (forget) return this.#context.store.delete(name, revision);
    return (
      (await this.#context.store.update(name, claimText({ node: '', peer: '', since: claim.since }), revision)) !== null
    );
  }
}
