import { type ClientProfile, callerKey } from '../../model/client-profile.ts';
import { OwnedElsewhere } from '../../model/gateway-error.ts';
import type { Owned, Ownership } from '../../model/ports.ts';
import type { Server } from '../../model/server.ts';
import type { OwnNode } from '../lease/own-node.ts';
import type { Claims } from './claims.ts';
import type { Claim } from './own-claims.ts';
import { isSingleton } from './own-servers.ts';
import { SINGLETON } from './placement.ts';

/** A shared process needs no owner; its epoch is that of the node. */
class Unowned implements Owned {
  readonly epoch: string;
  readonly stillMine = true;

  constructor(epoch: string) {
    this.epoch = epoch;
  }

  adopted(): void {}

  ready(): void {}

  ending(): void {}

  release(): void {}
}

class OfClaim implements Owned {
  readonly epoch: string;
  readonly #claims: Claims;
  /** Null: shared by all clients. */
  #claim: Claim | null;
  #serving = false;
  #ending = false;
  #gone = false;

  constructor(claims: Claims, claim: Claim) {
    this.#claims = claims;
    this.#claim = claim;
    this.epoch = claim.epoch;
    claim.processes++;
  }

  get stillMine(): boolean {
    return this.#claim === null || this.#claims.still(this.#claim);
  }

  adopted(_client: ClientProfile | null): void {}

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
    this.released();
  }

  protected released(): void {}

  protected moveTo(claim: Claim | null): void {
    if (this.#gone) return;
    const serving = this.#serving;
    this.#serve(false);
    if (this.#claim !== null) this.#claim.processes--;
    if (claim !== null) claim.processes++;
    this.#claim = claim;
    this.#serve(serving);
  }

  #serve(serving: boolean): void {
    if (this.#claim !== null) this.#claim.serving += Number(serving) - Number(this.#serving);
    this.#serving = serving;
  }
}

interface WarmClaimDeps {
  readonly claims: Claims;
  readonly warm: Claim;
  readonly claimOf: (client: ClientProfile) => Claim;
  readonly taken: () => void;
}

/** A process without a client yet, under a claim of its own. */
class OfWarmClaim extends OfClaim {
  readonly #deps: WarmClaimDeps;

  constructor(deps: WarmClaimDeps) {
    super(deps.claims, deps.warm);
    this.#deps = deps;
  }

  override adopted(client: ClientProfile | null): void {
    this.#deps.taken();
    this.moveTo(client === null ? null : this.#deps.claimOf(client));
  }

  protected override released(): void {
    const { claims, warm, taken } = this.#deps;
    taken();
    void claims.release(warm.server, warm.key, true);
  }
}

/** The claim, and thus the epoch, under which each process starts. */
export class ProcessOwnership implements Ownership {
  readonly #claims: Claims;
  readonly #self: Pick<OwnNode, 'epoch'>;
  readonly #peer: string;
  #warmCount = 0;
  readonly #waiting = new Set<Claim>();

  constructor(claims: Claims, self: Pick<OwnNode, 'epoch'>, peer: string) {
    this.#claims = claims;
    this.#self = self;
    this.#peer = peer;
  }

  async own(
    server: Server,
    client: ClientProfile,
    whose: 'spare' | 'shared' | 'session' | 'principal',
  ): Promise<Owned> {
    if (isSingleton(server)) return new OfClaim(this.#claims, await this.#claim(server, SINGLETON, null));
    if (whose === 'shared' || server.isolation === 'shared') return new Unowned(this.#self.epoch);
    if (whose !== 'spare') return new OfClaim(this.#claims, await this.#claim(server, keyOf(server, client), client));
    // Its epoch is older than that of any later owner.
    const warm = await this.#claim(server, `spare ${this.#peer} ${++this.#warmCount}`, null);
    this.#waiting.add(warm);
    const claimOf = (its: ClientProfile): Claim => {
      const claim = this.#claims.mine(server.name, keyOf(server, its));
      if (claim === null)
        throw new Error(`a process of ${server.name} was given to a client that this node does not own`);
      return claim;
    };
    return new OfWarmClaim({ claims: this.#claims, warm, claimOf, taken: () => this.#waiting.delete(warm) });
  }

  /** A client whose claim was lost meanwhile may be served by another node. */
  mayAdopt(server: Server, client: ClientProfile): boolean {
    if (isSingleton(server)) return true;
    const claim = this.#claims.mine(server.name, keyOf(server, client));
    return claim?.fresh === true && claim.forgotten < this.#oldestWarm(server.name);
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

function keyOf(server: Server, client: ClientProfile): string {
  return callerKey(client, server.isolation === 'principal' ? 'principal' : 'session');
}
