import type { BusServing } from '../../bus/bus.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { pause } from '../../model/clock.ts';
import type { Message } from '../../model/message.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import type { UpstreamEvents } from '../../model/ports.ts';
import { bodyField } from '../../protocol/body.ts';
import { result } from '../../protocol/compose.ts';
import { text } from '../../protocol/fields.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import { LruMap } from '../lru-map.ts';
import type { KnownServers } from '../nodes/known-servers.ts';

/** Beyond it, the first unsubscription ends a subscription. */
const MAX_RESOURCES = 65_536;
const SUBSCRIBE = 'resources/subscribe';
const UNSUBSCRIBE = 'resources/unsubscribe';
const SEPARATOR = '\0';
const NAME = 'trunkline.unwatched';
/** A node that does not answer counts as watching. */
const ASK_MS = 1_000;
/** A subscription waits at most this long for a withdrawal that neither continues nor ends. */
const HOLD_MS = 5_000;
/** A server's answer may take long; the other nodes are notified this often that it is still open. */
const RENEW_MS = 1_000;
const LOOK_MS = 20;
/** Beyond it the node answers that it watches the resource. */
const MAX_HELD = 10_000;
const UNDER_WAY = 'trunkline.withdrawing';
const OVER = 'trunkline.withdrawn';

export function concernsAll({ method }: Message): boolean {
  return method === SUBSCRIBE || method === UNSUBSCRIBE;
}

interface GivenUpWatch {
  readonly resource: string;
  readonly node: string;
  /** Null: nothing is withdrawn with any answer. */
  readonly id: string | null;
}

interface WatchState {
  readonly watched: boolean;
}

interface Hold {
  readonly resource: string;
  until: number;
}

/**
 * Ends a resource subscription of a connection or session that nodes share when the last node gives it up. Each node knows its
 * own watchers only, so the node asks the others; one that does not watch answers so and subscribes no client until the
 * withdrawal is over, because a subscription in between would be withdrawn. One that does not answer counts as watching while it
 * is there. A node that was considered gone was not asked: it subscribes again.
 */
export class SharedWatches {
  readonly #deps: Pick<ClusterDeps, 'bus' | 'clock'>;
  readonly #events: Pick<UpstreamEvents, 'connectionChanged'>;
  readonly #known: Pick<KnownServers, 'routingTable'>;
  readonly #nodes = new LruMap<Set<string>>(MAX_RESOURCES);
  /** By withdrawal; its id begins with its node. */
  readonly #holds = new Map<string, Hold>();
  #count = 0;

  constructor(
    deps: Pick<ClusterDeps, 'bus' | 'clock'>,
    events: Pick<UpstreamEvents, 'connectionChanged'>,
    known: Pick<KnownServers, 'routingTable'>,
  ) {
    const { bus } = deps;
    this.#deps = deps;
    this.#events = events;
    this.#known = known;
    const idIn = (payload: Buffer): string => unpackFrame<{ id: string }>(payload).header.id;
    const asked = (serving: BusServing): void => {
      const { resource, node, id } = unpackFrame<GivenUpWatch>(serving.payload).header;
      const watched = this.#leave(resource, node) || (id !== null && !this.#hold(resource, id));
      serving.answer(packFrame({ watched } satisfies WatchState));
    };
    bus.serve(NAME, asked, { concurrency: MAX_HELD });
    bus.subscribe(UNDER_WAY, (payload) => void this.#renewHold(idIn(payload)));
    bus.subscribe(OVER, (payload) => void this.#holds.delete(idIn(payload)));
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
    while (this.#isHeld(resource)) await pause(this.#deps.clock, LOOK_MS);
    const outcome = await pass();
    if (!again && (outcome.kind === 'failure' || outcome.message.kind !== 'result')) this.#leave(resource, node);
    return outcome;
  }

  forgetPeer(peer: string): void {
    for (const id of this.#holds.keys()) if (id.startsWith(`${peer}.`)) this.#holds.delete(id);
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

  /** Null: another client watches it. */
  async #giveUp(server: string, resource: string, node: string, pass: () => Promise<Outcome>): Promise<Outcome | null> {
    const asked = this.#others(server);
    if (!this.#leave(resource, node)) return this.#withdraw(server, resource, node, asked, pass);
    // They may watch it too.
    for (const peer of asked) void this.#ask(peer, { resource, node, id: null });
    return null;
  }

  /** Null without calling `pass` if a node still watches. */
  async #withdraw(
    server: string,
    resource: string,
    node: string,
    asked: readonly string[],
    pass: () => Promise<Outcome>,
  ): Promise<Outcome | null> {
    const { bus } = this.#deps;
    const id = `${bus.peer}.${++this.#count}`;
    this.#hold(resource, id);
    this.#keep(id);
    try {
      const said = await Promise.all(asked.map((peer) => this.#ask(peer, { resource, node, id })));
      const there = this.#others(server);
      const watched = asked.some((peer, i) => said[i] ?? there.includes(peer));
      return watched || this.#nodes.get(resource) !== undefined ? null : await pass();
    } finally {
      this.#holds.delete(id);
      if (asked.length > 0) bus.publish(OVER, packFrame({ id }));
    }
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

  /** Null if it does not answer. */
  async #ask(peer: string, left: GivenUpWatch): Promise<boolean | null> {
    const { outcome } = this.#deps.bus.call(NAME, packFrame(left), { to: peer, deadlineMs: ASK_MS });
    const ended = await outcome;
    return ended.kind === 'failure' ? null : unpackFrame<WatchState>(ended.payload).header.watched;
  }

  /** Here and at the other nodes, until it is over. */
  #keep(id: string): void {
    const { bus, clock } = this.#deps;
    clock.after(RENEW_MS, () => {
      if (!this.#renewHold(id)) return;
      bus.publish(UNDER_WAY, packFrame({ id }));
      this.#keep(id);
    });
  }

  #renewHold(id: string): boolean {
    const hold = this.#holds.get(id);
    if (hold === undefined) return false;
    hold.until = this.#deps.clock.now() + HOLD_MS;
    return true;
  }

  /** False if there are too many. */
  #hold(resource: string, id: string): boolean {
    if (this.#holds.size >= MAX_HELD && this.#live().length >= MAX_HELD) return false;
    this.#holds.set(id, { resource, until: this.#deps.clock.now() + HOLD_MS });
    return true;
  }

  #isHeld(resource: string): boolean {
    return this.#holds.size > 0 && this.#live().some((hold) => hold.resource === resource);
  }

  #live(): Hold[] {
    for (const [id, { until }] of this.#holds) if (this.#deps.clock.now() >= until) this.#holds.delete(id);
    return [...this.#holds.values()];
  }
}
