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

class ClaimedProcess implements OwnedProcess {
  readonly epoch: string;
  readonly #claims: Claims;
  readonly #server: Server;
  /** Of a warm process, which has no client yet: its claim, and the claims of all that wait; null for others. */
  readonly #warm: { readonly claim: Claim; readonly waiting: Set<Claim> } | null;
  /** Null if all clients share the process. */
  #claim: Claim | null;
  #serving = false;
  #ending = false;
  #gone = false;

  constructor(claims: Claims, server: Server, claim: Claim, waiting: Set<Claim> | null = null) {
    this.#claims = claims;
    this.#server = server;
    this.#claim = claim;
    this.#warm = waiting && { claim, waiting: waiting.add(claim) };
    this.epoch = claim.epoch;
    claim.processes++;
  }

  get isHeld(): boolean {
    return this.#claim === null || this.#claims.holds(this.#claim);
  }

  assignTo(client: ClientProfile | null): void {
    if (this.#warm === null) return;
    this.#warm.waiting.delete(this.#warm.claim);
    const { name } = this.#server;
    const claim = client && this.#claims.mine(name, ownProcessKey(this.#server, client));
    if (client !== null && claim === null)
      throw new Error(`a process of ${name} was given to a client that this node does not own`);
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
    if (this.#warm === null) return;
    this.#warm.waiting.delete(this.#warm.claim);
    void this.#claims.release(this.#server.name, this.#warm.claim.key, true);
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
    if (isSingleton(server))
      return new ClaimedProcess(this.#claims, server, await this.#claim(server, SINGLETON, null));
    if (whose === 'shared' || server.isolation === 'shared') return unowned(this.#self.epoch);
    if (whose !== 'spare')
      return new ClaimedProcess(this.#claims, server, await this.#claim(server, ownProcessKey(server, client), client));
    // The epoch of a warm process is older than that of any later owner.
    const warm = await this.#claim(server, `spare ${this.#peer} ${++this.#warmCount}`, null);
    return new ClaimedProcess(this.#claims, server, warm, this.#waiting);
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
    const ofServer = [...this.#waiting].filter((claim) => claim.server === server);
    return Math.min(...ofServer.map(({ since }) => since));
  }

  async #claim(server: Server, key: string, client: ClientProfile | null): Promise<Claim> {
    const owner = await this.#claims.claim(server.name, key, client);
    if (owner.kind === 'mine') return owner.claim;
    throw new OwnedElsewhere(server.name, owner.node);
  }
}
