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

/** A store that has not said by then whose something is does not answer at the moment. */
const SOON_MS = 1_000;
const AGAIN_MS = 1_000;

/**
 * Who is to serve what only one node may own. A claim alone is not enough: of a server that the files have dropped it is
 * kept until its processes have ended, and until then no node serves it; nor what goes to another node as soon as it is free.
 */
export class Owners {
  readonly #clock: Clock;
  readonly #events: Pick<UpstreamEvents, 'stateLost'>;
  readonly #self: OwnNode;
  readonly #servers: OwnServers;
  /** The store did not say in time whose something is; null where it did. */
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

  /** This node's claim, if it can serve under it at this instant: two look-ups and a comparison. */
  mine({ server }: Place, key: string): Claim | null {
    const claim = this.#claims.mine(server.name, key);
    return claim === null || this.#isEnding(claim) ? null : claim;
  }

  /**
   * The claim of the client's session, as `mine`, that a process of this node serves: so its calls need it, and what is
   * known of the server need not be asked. null says nothing.
   */
  engaged(place: Place, { sessionId }: ClientProfile): Claim | null {
    const { isolation } = place.server;
    if (sessionId === null || !place.process || runsOnce(place)) return null;
    if (isolation === 'shared' || isolation === 'principal') return null;
    const claim = this.mine(place, sessionId);
    return claim !== null && claim.serving > 0 ? claim : null;
  }

  /** It is this node's, and cannot be served here nor elsewhere until what runs of it has ended. */
  ending({ server }: Place, key: string): boolean {
    const claim = this.#claims.mine(server.name, key);
    return claim !== null && this.#isEnding(claim);
  }

  /** Whose it is; made this node's where that can be. null: it has no owner, and this node must not take it. */
  async of(place: Place, key: string, client: ClientProfile): Promise<Owner | null> {
    const leaves = place.otherInstances.length > 0 && (this.#self.draining || this.#servers.yields(place, key, client));
    if (place.here && !leaves) return this.#claim(place, key, client);
    return this.#claims.owner(place.server.name, key);
  }

  /** The instance that has it; null where that is this node or none, or while it is not known. */
  async instanceOfOwner({ server, otherInstances }: Place, key: string): Promise<RemoteInstance | null> {
    if (otherInstances.length === 0 || this.#claims.mine(server.name, key) !== null) return null;
    const owner = await this.#answerSoon(server.name, key);
    return otherInstances.find(({ node }) => owner?.kind === 'theirs' && node.peer === owner.peer) ?? null;
  }

  /** Makes it this node's, unless it is another's, or for others to have. Rejects with GatewayError. */
  async claim(place: Place, key: string, client: ClientProfile): Promise<Owner> {
    // A call that failed elsewhere gets a try here, unless the server cannot be started for any client.
    if (this.#servers.yields(place, key, null)) throw notStarted(place.server.name);
    const owner = await this.#claim(place, key, client);
    if (owner !== null) return owner;
    const server = place.server.name;
    throw new GatewayError('NOT_SENT', `the files of this node have dropped ${server}`, { server });
  }

  /** null without an owner, and where the store does not answer soon. While it does not answer, it is not waited for. */
  #answerSoon(server: string, key: string): Promise<Owner | null> {
    const clock = this.#clock;
    const askAgainAt = this.#askAgainAt;
    if (askAgainAt !== null && clock.now() < askAgainAt) return Promise.resolve(null);
    const unanswered = (): null => {
      this.#askAgainAt = clock.now() + AGAIN_MS;
      return null;
    };
    const answer = this.#claims.owner(server, key).then((owner) => {
      this.#askAgainAt = null;
      return owner;
    }, unanswered);
    // It was silent a moment ago: asked again, and not waited for.
    return askAgainAt === null ? within(clock, SOON_MS, answer, unanswered) : Promise.resolve(unanswered());
  }

  #isEnding(claim: Claim): boolean {
    return this.#servers.leaving(claim.server) || this.#servers.handingOver.isBarred(claim);
  }

  /** null: the files have dropped the server while the store was asked. */
  async #claim(place: Place, key: string, client: ClientProfile): Promise<Owner | null> {
    const { name } = place.server;
    const whose = key === SINGLETON ? null : client;
    const owner = await this.#claims.claim(name, key, whose);
    if (owner.kind === 'theirs') return owner;
    if (!(await this.#servers.claimed(owner.claim))) return null;
    if (whose !== null && !owner.claim.fresh && !owner.claim.lossReported) {
      owner.claim.lossReported = true;
      // It ended with the node that had it.
      if (client.sessionId !== null) this.#events.stateLost(name, client.sessionId, 'restarted');
    }
    return owner;
  }
}

/** Nor is it tried here at the moment: other instances may start. */
export function notStarted(server: string): GatewayError {
  return new GatewayError('NOT_SENT', `${server} cannot be started at this node`, { server });
}
