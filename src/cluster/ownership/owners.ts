import type { ClientProfile } from '../../model/client-profile.ts';
import { type Clock, within } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { UpstreamEvents } from '../../model/ports.ts';
import type { OwnNode } from '../lease/own-node.ts';
import { type Place, type RemoteInstance, runsOnce } from '../nodes/routing-table.ts';
import type { Owner } from './claims.ts';
import type { Claim } from './own-claims.ts';
import type { OwnServers } from './own-servers.ts';
import { SINGLETON } from './placement.ts';

const SOON_MS = 1_000;
const AGAIN_MS = 1_000;

/**
 * Decides who serves what only one node may own. A claim is not enough: a removed server, and what is being handed over, is not
 * served.
 */
export class Owners {
  readonly #clock: Clock;
  readonly #events: Pick<UpstreamEvents, 'stateLost'>;
  readonly #self: OwnNode;
  readonly #servers: OwnServers;
  /** Null while the store answers in time. */
  #askAgainAt: number | null = null;

  constructor(clock: Clock, events: Pick<UpstreamEvents, 'stateLost'>, self: OwnNode, servers: OwnServers) {
    this.#clock = clock;
    this.#events = events;
    this.#self = self;
    this.#servers = servers;
  }

  get #claims(): OwnServers['owned']['claims'] {
    return this.#servers.owned.claims;
  }

  /** Two look-ups and a comparison: every call asks. */
  mine({ server }: Place, key: string): Claim | null {
    const claim = this.#claims.mine(server.name, key);
    return claim === null || this.#isEnding(claim) ? null : claim;
  }

  /** The session's claim, if a process here serves it: then its calls need it for certain. Null says nothing. */
  engaged(place: Place, { sessionId }: ClientProfile): Claim | null {
    const { isolation } = place.server;
    if (sessionId === null || !place.process || runsOnce(place)) return null;
    if (isolation === 'shared' || isolation === 'principal') return null;
    const claim = this.mine(place, sessionId);
    return claim !== null && claim.serving > 0 ? claim : null;
  }

  /** Neither served here nor elsewhere until its processes have ended. */
  ending({ server }: Place, key: string): boolean {
    const claim = this.#claims.mine(server.name, key);
    return claim !== null && this.#isEnding(claim);
  }

  /** Claims it if possible. Null: no owner, and this node must not take it. */
  async of(place: Place, key: string, client: ClientProfile): Promise<Owner | null> {
    const leaves = place.otherInstances.length > 0 && (this.#self.draining || this.#servers.yields(place, key, client));
    if (place.here && !leaves) return this.#claim(place, key, client);
    return this.#claims.owner(place.server.name, key);
  }

  /** Null if that is this node, no node, or unknown. */
  async instanceOfOwner({ server, otherInstances }: Place, key: string): Promise<RemoteInstance | null> {
    if (otherInstances.length === 0 || this.#claims.mine(server.name, key) !== null) return null;
    const owner = await this.#ownerSoon(server.name, key);
    return otherInstances.find(({ node }) => owner?.kind === 'theirs' && node.peer === owner.peer) ?? null;
  }

  /** Unless it is another node's, or left to others. Rejects with GatewayError. */
  async claim(place: Place, key: string, client: ClientProfile): Promise<Owner> {
    // A call that failed elsewhere gets a try here.
    if (this.#servers.yields(place, key, null)) throw notStarted(place.server.name);
    const owner = await this.#claim(place, key, client);
    if (owner !== null) return owner;
    const server = place.server.name;
    throw new GatewayError('NOT_SENT', `the files of this node have dropped ${server}`, { server });
  }

  /** Null without an owner. One list waits a second for a store that is silent; then none does until it has answered. */
  #ownerSoon(server: string, key: string): Promise<Owner | null> {
    const clock = this.#clock;
    const silent = this.#askAgainAt !== null;
    if (clock.now() < (this.#askAgainAt ?? 0)) return Promise.resolve(null);
    const unanswered = (): null => {
      this.#askAgainAt = clock.now() + AGAIN_MS;
      return null;
    };
    const answer = this.#claims.owner(server, key).then((owner) => {
      this.#askAgainAt = null;
      return owner;
    }, unanswered);
    return silent ? Promise.resolve(unanswered()) : within(clock, SOON_MS, answer, unanswered);
  }

  #isEnding(claim: Claim): boolean {
    return this.#servers.leaving(claim.server) || this.#servers.handingOver.isBarred(claim);
  }

  /** Null: the files dropped the server meanwhile. */
  async #claim(place: Place, key: string, client: ClientProfile): Promise<Owner | null> {
    const { name } = place.server;
    const whose = key === SINGLETON ? null : client;
    const owner = await this.#claims.claim(name, key, whose);
    if (owner.kind === 'theirs') return owner;
    if (!(await this.#servers.claimed(owner.claim))) return null;
    if (whose !== null && !owner.claim.fresh && !owner.claim.lossReported) {
      owner.claim.lossReported = true;
      if (client.sessionId !== null) this.#events.stateLost(name, client.sessionId, 'restarted');
    }
    return owner;
  }
}

export function notStarted(server: string): GatewayError {
  return new GatewayError('NOT_SENT', `${server} cannot be started at this node`, { server });
}
