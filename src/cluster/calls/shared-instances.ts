import type { ClientProfile } from '../../model/client-profile.ts';
import type { UpstreamEvents, Upstreams } from '../../model/ports.ts';
import { DOWN, STARTED } from '../../model/server-state.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import type { OwnNode } from '../lease/own-node.ts';
import { canFreeCapacity, cannotStart, Instances, isStarted } from '../nodes/instances.ts';
import { rendezvous } from '../nodes/rendezvous.ts';
import { type Place, type RemoteInstance, runsOnce } from '../nodes/routing-table.ts';

interface SharedInstancesParts {
  readonly deps: Pick<ClusterDeps, 'bus' | 'local' | 'openers'>;
  readonly self: Pick<OwnNode, 'draining'>;
  /** The other nodes that served calls of each session; the cluster notifies them when it ends. */
  readonly instances: Instances;
  readonly events: Pick<UpstreamEvents, 'stateLost'>;
  readonly lists: Pick<Upstreams, 'knownCatalog'>;
}

/**
 * Chooses which process of a shared local server, one at each node, serves a session: that of the node that opened the session
 * or, if it cannot, one chosen by rendezvous hashing (decision 093). Without the bus, or if `cluster.sharedProcesses` does not
 * ask for it, each node uses its own process.
 */
export class SharedInstances {
  readonly #parts: SharedInstancesParts;
  /** The peer, possibly this node, that served the last call of each session. */
  readonly #served = new Instances();

  constructor(parts: SharedInstancesParts) {
    this.#parts = parts;
  }

  /** As `elsewhere`, for a call: reports lost state if another process served the session before. */
  next(place: Place, client: ClientProfile): RemoteInstance | null {
    if (!this.#keeps(place, client)) return null;
    const { deps, instances, events, lists } = this.#parts;
    const { name } = place.server;
    const { sessionId } = client;
    const instance = this.elsewhere(place, client);
    if (instance === null && !place.here) return null;
    const before = this.#served.peerOf(name, sessionId);
    const peer = instance?.node.peer ?? deps.bus.peer;
    if (before === peer) return instance;
    this.#served.remember(name, sessionId, peer, null);
    if (instance === null) instances.forget(name, sessionId);
    else instances.remember(name, sessionId, peer, null);
    // A stateless server keeps no state for a session.
    const stateless = lists.knownCatalog(name, client)?.handshake.era === 'stateless';
    if (before !== null && !stateless) events.stateLost(name, sessionId, 'restarted');
    return instance;
  }

  forgetSession(sessionId: string): void {
    this.#served.forgetSession(sessionId);
  }

  /** Returns the other node's instance that must serve the client; null if this node serves it or any node may. */
  elsewhere(place: Place, client: ClientProfile): RemoteInstance | null {
    const { otherInstances } = place;
    if (otherInstances.length === 0 || !this.#keeps(place, client)) return null;
    const { sessionId } = client;
    const { bus, openers } = this.#parts.deps;
    if (!bus.connected) return null;
    const opener = openers?.()?.openerOf(sessionId) ?? null;
    if (opener === bus.peer) {
      if (this.#servesHere(place)) return null;
    } else if (opener !== null) {
      const instance = otherInstances.find(({ node }) => node.peer === opener);
      if (instance === undefined) openers?.()?.passOn(sessionId);
      else if (serves(instance)) return instance;
    }
    const able = otherInstances.filter(serves);
    const peers = able.map(({ node }) => node.peer);
    const chosen = rendezvous(sessionId, this.#servesHere(place) ? [...peers, bus.peer] : peers);
    return able.find(({ node }) => node.peer === chosen) ?? null;
  }

  #keeps(place: Place, client: ClientProfile): client is ClientProfile & { readonly sessionId: string } {
    if (this.#parts.deps.openers === undefined) return false;
    if (place.server.isolation !== 'shared' || !place.process || runsOnce(place)) return false;
    return client.sessionId !== null && client.passing !== true;
  }

  /** Judges this node as `serves` judges the others, so that all nodes choose the same process. */
  #servesHere({ here, server: { name } }: Place): boolean {
    const { deps, self } = this.#parts;
    if (!here || self.draining) return false;
    const state = deps.local.state(name) ?? 'unknown';
    return !DOWN.has(state) && (STARTED.has(state) || deps.local.capacity(name) !== 'none');
  }
}

function serves(instance: RemoteInstance): boolean {
  if (instance.node.state === 'draining' || cannotStart(instance)) return false;
  return isStarted(instance) || canFreeCapacity(instance, instance.advertised.definition.name);
}

/** The key of a connection at another node, distinct from the keys of this node's connections. */
export function keyAt(key: string, peer: string): string {
  return `${key} @${peer}`;
}
