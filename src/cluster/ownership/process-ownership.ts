import { type ClientProfile, ownProcessKey } from '../../model/client-profile.ts';
import { OwnedElsewhere } from '../../model/gateway-error.ts';
import type { OwnedProcess, Ownership } from '../../model/ports.ts';
import type { Server } from '../../model/server.ts';
import type { OwnNode } from '../lease/own-node.ts';
import type { Claims } from './claims.ts';
import type { Claim } from './own-claims.ts';
import { isSingleton } from './own-servers.ts';
import { SINGLETON } from './placement.ts';

/** A shared process needs no owner; its epoch is that of the node. */
function unowned(epoch: string): OwnedProcess {
  return { epoch, isHeld: true, assignTo() {}, ready() {}, ending() {}, release() {} };
}

/** A warm process, which has a claim of its own and no client yet. */
interface WarmProcess {
  taken(): void;
  claimOf(client: ClientProfile): Claim;
  ended(): void;
}

class ClaimedProcess implements OwnedProcess {
  readonly epoch: string;
  readonly #claims: Claims;
  readonly #warm: WarmProcess | null;
  /** Null if all clients share the process. */
  #claim: Claim | null;
  #serving = false;
  #ending = false;
  #gone = false;

  constructor(claims: Claims, claim: Claim, warm: WarmProcess | null = null) {
    this.#claims = claims;
    this.#claim = claim;
    this.#warm = warm;
    this.epoch = claim.epoch;
    claim.processes++;
  }

  get isHeld(): boolean {
    return this.#claim === null || this.#claims.holds(this.#claim);
  }

  assignTo(client: ClientProfile | null): void {
    if (this.#warm === null) return;
    this.#warm.taken();
    const claim = client === null ? null : this.#warm.claimOf(client);
    if (this.#gone) return;
    const serving = this.#serving;
    this.#serve(false);
    if (this.#claim !== null) this.#claim.processes--;
    if (claim !== null) claim.processes++;
    this.#claim = claim;
    this.#serve(serving);
  }

  ready(): void {
    if (!this.#ending) this.#serve(true);
  }

  ending(): void {
    this.#ending = true;
    this.#serve(false);
  }

  release(): void {
    if (this.#gone) return;
    this.ending();
    this.#gone = true;
    if (this.#claim !== null) this.#claim.processes--;
    this.#warm?.ended();
  }

  #serve(serving: boolean): void {
    if (this.#claim !== null) this.#claim.serving += Number(serving) - Number(this.#serving);
    this.#serving = serving;
  }
}

/** Decides under which claim, and thus epoch, each process starts. */
export class ProcessOwnership implements Ownership {
  readonly #claims: Claims;
  readonly #self: Pick<OwnNode, 'epoch' | 'able'>;
  readonly #peer: string;
  #warmCount = 0;
  readonly #waiting = new Set<Claim>();
  /** Starts that wait for the next lease. */
  readonly #unleased = new Set<() => void>();

  constructor(claims: Claims, self: Pick<OwnNode, 'epoch' | 'able'>, peer: string) {
    this.#claims = claims;
    this.#self = self;
    this.#peer = peer;
  }

  async acquire(
    server: Server,
    client: ClientProfile,
    whose: 'spare' | 'shared' | 'session' | 'principal',
  ): Promise<OwnedProcess> {
    if (isSingleton(server)) return new ClaimedProcess(this.#claims, await this.#claim(server, SINGLETON, null));
    if (whose === 'shared' || server.isolation === 'shared') return unowned(this.#self.epoch);
    if (whose !== 'spare')
      return new ClaimedProcess(this.#claims, await this.#claim(server, ownProcessKey(server, client), client));
    // The epoch of a warm process is older than that of any later owner.
    const warm = await this.#claim(server, `spare ${this.#peer} ${++this.#warmCount}`, null);
    const taken = (): void => void this.#waiting.delete(warm);
    this.#waiting.add(warm);
    return new ClaimedProcess(this.#claims, warm, {
      taken,
      claimOf: (its) => {
        const claim = this.#claims.mine(server.name, ownProcessKey(server, its));
        if (claim !== null) return claim;
        throw new Error(`a process of ${server.name} was given to a client that this node does not own`);
      },
      ended: () => {
        taken();
        void this.#claims.release(server.name, warm.key, true);
      },
    });
  }

  /** Not if this node lost the client's claim, or if an earlier owner of it may be newer than the warm process. */
  mayAdopt(server: Server, client: ClientProfile): boolean {
    if (isSingleton(server)) return true;
    const claim = this.#claims.mine(server.name, ownProcessKey(server, client));
    return claim?.fresh === true && claim.forgotten < this.#oldestWarm(server.name);
  }

  onLeaseAcquired(run: () => void): (() => void) | null {
    if (this.#self.able) return null;
    this.#unleased.add(run);
    return () => void this.#unleased.delete(run);
  }

  /** Runs the waiting starts, now that this node has its lease. */
  held(): void {
    const due = [...this.#unleased];
    this.#unleased.clear();
    for (const run of due) run();
  }

  #oldestWarm(server: string): number {
    let oldest = Number.POSITIVE_INFINITY;
    for (const claim of this.#waiting) if (claim.server === server) oldest = Math.min(oldest, claim.since);
    return oldest;
  }

  async #claim(server: Server, key: string, client: ClientProfile | null): Promise<Claim> {
    const owner = await this.#claims.claim(server.name, key, client);
    if (owner.kind === 'mine') return owner.claim;
    throw new OwnedElsewhere(server.name, owner.node);
  }
}
