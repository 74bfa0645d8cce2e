import type { ClientProfile } from '../../model/client-profile.ts';
import type { Message } from '../../model/message.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import type { UpstreamEvents } from '../../model/ports.ts';
import { bodyField } from '../../protocol/body.ts';
import { result } from '../../protocol/compose.ts';
import { text } from '../../protocol/fields.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { LruMap } from '../lru-map.ts';
import type { KnownServers } from '../nodes/known-servers.ts';
import { Withdrawals } from './withdrawals.ts';

/** Beyond it, the first unsubscription ends a subscription. */
const MAX_RESOURCES = 65_536;
const SUBSCRIBE = 'resources/subscribe';
const UNSUBSCRIBE = 'resources/unsubscribe';
const SEPARATOR = '\0';

export function concernsAll({ method }: Message): boolean {
  return method === SUBSCRIBE || method === UNSUBSCRIBE;
}

/**
 * Ends a resource subscription of a connection or session that nodes share when the last node gives it up. Each node knows its
 * own watchers only. A node that was considered gone was not asked: it subscribes again.
 */
export class SharedWatches {
  readonly #events: Pick<UpstreamEvents, 'connectionChanged'>;
  readonly #known: Pick<KnownServers, 'routingTable'>;
  readonly #nodes = new LruMap<Set<string>>(MAX_RESOURCES);
  readonly #withdrawals: Withdrawals;

  constructor(
    deps: Pick<ClusterDeps, 'bus' | 'clock'>,
    events: Pick<UpstreamEvents, 'connectionChanged'>,
    known: Pick<KnownServers, 'routingTable'>,
  ) {
    this.#events = events;
    this.#known = known;
    this.#withdrawals = new Withdrawals(deps.bus, deps.clock, (...left) => this.#leave(...left));
  }

  /** `key`: of the connection; `node`: whose clients. */
  async run(
    server: string,
    key: string | null,
    { sessionId }: ClientProfile,
    node: string,
    request: Message,
    pass: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const uri = bodyField(request, 'uri');
    // A session's own connection concerns no other client.
    if (uri === null || key === sessionId) return pass();
    const resource = [server, key ?? '', text(request.bytes, uri)].join(SEPARATOR);
    if (request.method === UNSUBSCRIBE) {
      const passed = await this.#giveUp(server, resource, node, pass);
      return passed ?? answer(result('0', '{}', 'stateful'));
    }
    const nodes = this.#nodes.get(resource) ?? new Set<string>();
    const again = nodes.has(node);
    // First, so that no concurrent unsubscription ends it.
    nodes.add(node);
    this.#nodes.set(resource, nodes);
    await this.#withdrawals.over(resource);
    const outcome = await pass();
    if (!again && (outcome.kind === 'failure' || outcome.message.kind !== 'result')) this.#leave(resource, node);
    return outcome;
  }

  forgetPeer(peer: string): void {
    this.#withdrawals.forgetPeer(peer);
    for (const [resource, nodes] of [...this.#nodes.entries()]) {
      if (nodes.delete(peer) && nodes.size === 0) this.#nodes.delete(resource);
    }
  }

  /** This node is back: others may have ended subscriptions that it uses. */
  renew(): void {
    const connections = new Map<string, readonly [server: string, key: string]>();
    for (const [resource] of this.#nodes.entries()) {
      const [server, key] = resource.split(SEPARATOR) as [string, string];
      // The other nodes may still be unknown.
      if (this.#known.routingTable.places.get(server)?.process === false)
        connections.set(`${server}${SEPARATOR}${key}`, [server, key]);
    }
    for (const [server, key] of connections.values()) this.#events.connectionChanged(server, key, 'ended');
  }

  close(): void {
    this.#withdrawals.close();
  }

  /** Null: another client watches it. */
  async #giveUp(server: string, resource: string, node: string, pass: () => Promise<Outcome>): Promise<Outcome | null> {
    const others = (): readonly string[] => this.#others(server);
    if (!this.#leave(resource, node)) {
      return this.#withdrawals.run(resource, node, others, () => this.#nodes.get(resource) !== undefined, pass);
    }
    // They may watch it too.
    this.#withdrawals.tell(resource, node, others());
    return null;
  }

  /** None if each has its own process. */
  #others(server: string): readonly string[] {
    const place = this.#known.routingTable.places.get(server);
    return place === undefined || place.process ? [] : place.otherInstances.map(({ node }) => node.peer);
  }

  /** Returns whether others watch it through this node. */
  #leave(resource: string, node: string): boolean {
    const nodes = this.#nodes.get(resource);
    if (nodes === undefined) return false;
    nodes.delete(node);
    if (nodes.size > 0) return true;
    this.#nodes.delete(resource);
    return false;
  }
}
