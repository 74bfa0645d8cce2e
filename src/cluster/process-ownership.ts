import type { ClientProfile } from '../model/client-profile.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Owned, Ownership } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import type { Claim, Claims } from './claims.ts';
import { clientKey, SINGLETON } from './placement.ts';
import { isSingleton } from './singletons.ts';

/** What is everybody's needs no owner; its processes know which life of the node they were started in. */
class Unowned implements Owned {
  readonly epoch: string;
  readonly stillMine = true;

  constructor(epoch: string) {
    this.epoch = epoch;
  }

  release(): void {}
}

/** A process that serves a claim, for as long as that is this node's. */
class OfClaim implements Owned {
  readonly #claims: Claims;
  readonly #claim: Claim;
  /** Of nobody's process yet: the claim ends with it. */
  readonly #ends: boolean;

  constructor(claims: Claims, claim: Claim, ends: boolean) {
    this.#claims = claims;
    this.#claim = claim;
    this.#ends = ends;
  }

  get epoch(): string {
    return this.#claim.epoch;
  }

  get stillMine(): boolean {
    return this.#claims.still(this.#claim);
  }

  release(): void {
    const { server, key } = this.#claim;
    if (this.#ends) void this.#claims.release(server, key, true);
  }
}

/** Under which claim, and so under which epoch, each process of this node is started. */
export class ProcessOwnership implements Ownership {
  readonly #claims: Claims;
  readonly #nodeEpoch: () => string;
  readonly #peer: string;
  #spares = 0;

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
    if (isSingleton(server)) return this.#of(server, SINGLETON, null, false);
    if (whose === 'shared') return new Unowned(this.#nodeEpoch());
    // Of a spare nobody knows yet whose it will be; its epoch is one of its own, older than that of any later owner.
    if (whose === 'spare') return this.#of(server, `spare ${this.#peer} ${++this.#spares}`, null, true);
    return this.#of(
      server,
      clientKey(client, server.isolation === 'principal' ? 'principal' : 'session'),
      client,
      false,
    );
  }

  mayAdopt(server: Server, client: ClientProfile): boolean {
    const key = clientKey(client, server.isolation === 'principal' ? 'principal' : 'session');
    return this.#claims.mine(server.name, key)?.fresh !== false;
  }

  async #of(server: Server, key: string, client: ClientProfile | null, ends: boolean): Promise<Owned> {
    const owner = await this.#claims.claim(server.name, key, client);
    if (owner.kind === 'mine') return new OfClaim(this.#claims, owner.claim, ends);
    throw new GatewayError('NOT_SENT', `${server.name} is owned by node ${owner.node}`, { server: server.name });
  }
}
