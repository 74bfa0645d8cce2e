import type { ClientProfile } from '../../model/client-profile.ts';
import { callerKey } from '../../model/isolation.ts';
import { OwnedElsewhere } from '../../model/owned-elsewhere.ts';
import type { Owned, Ownership } from '../../model/ports.ts';
import type { Server } from '../../model/server.ts';
import type { Claims } from './claims.ts';
import type { Claim } from './held-claims.ts';
import { SINGLETON } from './placement.ts';
import { isSingleton } from './singletons.ts';

/** What is everybody's needs no owner; its processes know which life of the node they were started in. */
class Unowned implements Owned {
  readonly epoch: string;
  readonly stillMine = true;

  constructor(epoch: string) {
    this.epoch = epoch;
  }

  adopted(): void {}

  release(): void {}
}

/** A process that serves a claim, for as long as that is this node's. */
class OfClaim implements Owned {
  readonly #claims: Claims;
  readonly #claim: Claim;
  #ended = false;

  constructor(claims: Claims, claim: Claim) {
    this.#claims = claims;
    this.#claim = claim;
    claim.processes++;
  }

  get epoch(): string {
    return this.#claim.epoch;
  }

  get stillMine(): boolean {
    return this.#claims.still(this.#claim);
  }

  adopted(): void {}

  release(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#claim.processes--;
  }
}

/** A process that was started before anybody knew whose it would be, under a claim of its own. */
class OfSpare implements Owned {
  readonly #claims: Claims;
  readonly #spare: Claim;
  readonly #claimOf: (client: ClientProfile) => Claim;
  readonly #taken: () => void;
  /** What it serves; null: everybody. */
  #served: Claim | null;
  #ended = false;

  /** `taken`: it has become somebody's, or has ended. */
  constructor(claims: Claims, spare: Claim, claimOf: (client: ClientProfile) => Claim, taken: () => void) {
    this.#claims = claims;
    this.#taken = taken;
    this.#spare = spare;
    this.#served = spare;
    spare.processes++;
    this.#claimOf = claimOf;
  }

  get epoch(): string {
    return this.#spare.epoch;
  }

  get stillMine(): boolean {
    return this.#served === null || this.#claims.still(this.#served);
  }

  adopted(client: ClientProfile | null): void {
    this.#taken();
    this.#serve(client === null ? null : this.#claimOf(client));
  }

  release(): void {
    this.#taken();
    if (this.#ended) return;
    this.#ended = true;
    if (this.#served !== null) this.#served.processes--;
    const { server, key } = this.#spare;
    void this.#claims.release(server, key, true);
  }

  #serve(served: Claim | null): void {
    if (this.#served !== null) this.#served.processes--;
    this.#served = served;
    if (served !== null) served.processes++;
  }
}

/** Under which claim, and so under which epoch, each process of this node is started. */
export class ProcessOwnership implements Ownership {
  readonly #claims: Claims;
  readonly #nodeEpoch: () => string;
  readonly #peer: string;
  #spares = 0;
  /** Those that are nobody's yet. */
  readonly #waiting = new Set<Claim>();

  constructor(claims: Claims, nodeEpoch: () => string, peer: string) {
    this.#claims = claims;
    this.#nodeEpoch = nodeEpoch;
    this.#peer = peer;
  }

  async own(
    server: Server,
    client: ClientProfile,
    whose: 'spare' | 'shared' | 'session' | 'principal',
  ): Promise<Owned> {
    if (isSingleton(server)) return new OfClaim(this.#claims, await this.#claim(server, SINGLETON, null));
    if (whose === 'shared' || server.isolation === 'shared') return new Unowned(this.#nodeEpoch());
    if (whose !== 'spare') return new OfClaim(this.#claims, await this.#claim(server, keyOf(server, client), client));
    // Of a spare nobody knows yet whose it will be; its epoch is one of its own, older than that of any later owner.
    const spare = await this.#claim(server, `spare ${this.#peer} ${++this.#spares}`, null);
    this.#waiting.add(spare);
    const claimOf = (its: ClientProfile): Claim => {
      const claim = this.#claims.mine(server.name, keyOf(server, its));
      if (claim === null)
        throw new Error(`a process of ${server.name} was given to a client that this node does not own`);
      return claim;
    };
    return new OfSpare(this.#claims, spare, claimOf, () => this.#waiting.delete(spare));
  }

  /** A client whose claim was lost while it waited has none at this instant: another node may serve it by now. */
  mayAdopt(server: Server, client: ClientProfile): boolean {
    if (isSingleton(server)) return true;
    const claim = this.#claims.mine(server.name, keyOf(server, client));
    return claim !== null && claim.fresh && claim.forgotten < this.#oldestSpare(server.name);
  }

  #oldestSpare(server: string): number {
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

function keyOf(server: Server, client: ClientProfile): string {
  return callerKey(client, server.isolation === 'principal' ? 'principal' : 'session');
}
