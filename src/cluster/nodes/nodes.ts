import type { ClusterDeps, ThisNode } from '../cluster-deps.ts';
import { OLDEST_PROTOCOL, PROTOCOL, packFrame, SHORT_FORM, unpackAnyFrame, unpackFrame } from '../frames/frame.ts';
import { SILENT_MS } from './lost-instances.ts';
import { type NodeView, protocolsOverlap } from './node-state.ts';
import type { Testimony, Witnesses } from './witnesses.ts';

const HEARTBEAT_MS = 500;
/** While the store does not answer: leases then depend on heartbeats. */
const LATE_HEARTBEAT_MS = 200;
const LOST_MS = 3 * HEARTBEAT_MS;
const LOOK_MS = 100;
/** A node that has not received its own heartbeats for this long may not receive those of others either. */
const DEAF_MS = 2 * HEARTBEAT_MS;
/** A check this late means that this process was paused. */
const STALL_MS = 400;
/** After a longer pause of a node, others may have considered it lost. */
const ABSENCE_MS = LOST_MS - HEARTBEAT_MS - 2 * LOOK_MS;
/** Limit of remembered nodes with an incompatible protocol; each is logged once. */
const MAX_STRANGERS = 256;
const MAX_ANNOUNCED = 8;
/** How often a node sends its whole view although it did not change. */
const VIEW_MS = 10_000;
const VIEWS = 'trunkline.node';
export const BEATS = 'trunkline.beat';
export const PROTOCOLS: readonly [number, number] = [OLDEST_PROTOCOL, PROTOCOL];

/** A heartbeat with the whole view of the node. */
interface Heartbeat extends NodeView {
  readonly leaving?: boolean;
  /** Absent from nodes of earlier versions. */
  readonly testimony?: Testimony;
  /** Number of the view, for beats to refer to; absent from nodes of earlier versions, which know no beats. */
  readonly number?: number;
  /** Peers whose view the sender lacks. */
  readonly wants?: readonly string[];
}

/** The members of a view that change often. */
type Figures = Pick<NodeView, 'offer' | 'load' | 'busy' | 'owned'>;

/** A short heartbeat that refers by number to a view that the other nodes have. */
interface Beat extends Partial<Figures> {
  readonly number: number;
  readonly testimony: Testimony;
}

interface KnownNode {
  readonly view: NodeView;
  number: number | undefined;
  lastSeenAt: number;
}

/** Membership of the cluster by heartbeats, because the bus does not report the end of a node. */
export class Nodes {
  readonly #deps: Pick<ClusterDeps, 'node' | 'bus' | 'clock' | 'logger'>;
  readonly #witnesses: Witnesses;
  readonly #node: ThisNode;
  readonly #known = new Map<string, KnownNode>();
  readonly #strangers = new Set<string>();
  /** Listener addresses, by peer, of the last nodes heard from, including those lost together with the bus. */
  readonly announced = new Map<string, readonly string[]>();
  /** Names of nodes lost within the last hour without leaving or draining, with the wall-clock time of the loss. */
  readonly silent = new Map<string, number>();
  /** Peers whose beats refer to a view that this node lacks. */
  readonly #wanted = new Set<string>();
  #lookedAt: number;
  /** Since when this node receives its own heartbeats, and (`#ownHeartbeatAt`) when it received the last one. */
  #receivingSince = Number.POSITIVE_INFINITY;
  #ownHeartbeatAt = Number.NEGATIVE_INFINITY;
  #sentAt = Number.NEGATIVE_INFINITY;
  #viewSentAt = Number.NEGATIVE_INFINITY;
  #number = 0;
  /** Text of the view with that number. */
  #text = '';
  #closed = false;

  constructor(deps: Pick<ClusterDeps, 'node' | 'bus' | 'clock' | 'logger'>, witnesses: Witnesses, node: ThisNode) {
    this.#deps = deps;
    this.#witnesses = witnesses;
    this.#node = node;
    this.#lookedAt = deps.clock.now();
    witnesses.sendHeartbeat = () => this.sendHeartbeat();
    deps.bus.onEvent(({ type }) => {
      if (type === 'disconnected') this.#ownHeartbeatAt = Number.NEGATIVE_INFINITY;
    });
    deps.bus.subscribe(`${VIEWS}.*`, (payload, from) => this.#onView(payload, from));
    deps.bus.subscribe(`${BEATS}.*`, (payload, from) => this.#onBeat(unpackFrame<Beat>(payload).header, from));
  }

  get self(): NodeView {
    return this.#node.view;
  }

  /** The other nodes that share a protocol version with this one. */
  *others(): Iterable<NodeView> {
    for (const { view } of this.#known.values()) yield view;
  }

  get(peer: string): NodeView | null {
    return this.#known.get(peer)?.view ?? null;
  }

  /** Whether the peer is certainly gone, because this node would have received its heartbeats. */
  isGone(peer: string): boolean {
    const { bus, clock } = this.#deps;
    if (peer === bus.peer || this.#known.has(peer) || !bus.connected) return false;
    const now = clock.now();
    return now - this.#ownHeartbeatAt < DEAF_MS && now - this.#receivingSince >= LOST_MS;
  }

  /** The node with this name that started last. */
  named(id: string): NodeView | null {
    const all = [...this.others()].filter((view) => view.id === id);
    return all.sort((one, other) => other.startedAt - one.startedAt)[0] ?? null;
  }

  /** For work that one node does: this node has the lowest peer id, and all speak at least that protocol. */
  first(protocol: number): boolean {
    for (const { view } of this.#known.values()) {
      if (view.protocols[1] < protocol || view.peer < this.#deps.bus.peer) return false;
    }
    return true;
  }

  start(): void {
    this.#look();
  }

  /** The peer has a lease but is unknown: it may have died before this node started. */
  markSilent(peer: string): void {
    if (!this.#known.has(peer)) this.#witnesses.silent(peer);
  }

  /** Sends a heartbeat: the view if it changed, if others may lack it, or if one of them knows no beats. */
  sendHeartbeat(): void {
    if (this.#closed) return;
    const { bus, clock } = this.#deps;
    const { self } = this;
    const isKnown = textOf(self) === this.#text && this.#wanted.size === 0 && clock.now() - this.#viewSentAt < VIEW_MS;
    if (isKnown && this.#known.values().every(({ number }) => number !== undefined)) {
      this.#sentAt = clock.now();
      const { offer, load, busy, owned } = self;
      const figures = Object.entries({ offer, load, busy, owned }).filter(([, figure]) => figure !== 0);
      const beat: Beat = { number: this.#number, testimony: this.#witnesses.testify(), ...Object.fromEntries(figures) };
      bus.publish(`${BEATS}.${bus.peer}`, packFrame(beat));
    } else this.sendView();
  }

  /** Sends a heartbeat with the view. */
  sendView(leaving = false): void {
    if (this.#closed) return;
    const { bus, clock } = this.#deps;
    this.#sentAt = this.#viewSentAt = clock.now();
    const { self } = this;
    const text = textOf(self);
    if (text !== this.#text) this.#number++;
    this.#text = text;
    const heartbeat: Heartbeat = {
      ...self,
      forms: SHORT_FORM,
      testimony: this.#witnesses.testify(),
      number: this.#number,
      ...(this.#wanted.size === 0 ? {} : { wants: [...this.#wanted] }),
      ...(leaving ? { leaving } : {}),
    };
    this.#wanted.clear();
    bus.publish(`${VIEWS}.${bus.peer}`, packFrame(heartbeat));
  }

  close(): void {
    if (this.#closed) return;
    this.sendView(true);
    this.#closed = true;
  }

  #look(): void {
    const { clock } = this.#deps;
    const now = clock.now();
    const late = now - this.#lookedAt - LOOK_MS;
    this.#lookedAt = now;
    // A paused process receives nothing: extend every node's time by the pause, at most to now.
    if (late > STALL_MS)
      for (const known of this.#known.values()) known.lastSeenAt = Math.min(now, known.lastSeenAt + late);
    for (const { view, lastSeenAt } of [...this.#known.values()]) {
      if (now - lastSeenAt >= LOST_MS) this.#gone(view, `node ${view.id} sent nothing for ${LOST_MS} ms`);
    }
    // Each renewal of the lease sends a heartbeat, so this one is rarely due.
    const everyMs = this.#witnesses.late ? LATE_HEARTBEAT_MS : HEARTBEAT_MS + LOOK_MS;
    if (now - this.#sentAt >= everyMs - LOOK_MS / 2) this.sendHeartbeat();
    clock.after(LOOK_MS, () => this.#look());
    if (late > ABSENCE_MS) this.#node.stalled();
  }

  #onView(payload: Buffer, from: string): void {
    const { bus, clock, logger } = this.#deps;
    if (from === bus.peer) this.#onOwnHeartbeat();
    if (from === bus.peer || this.#closed) return;
    const heartbeat = readHeartbeat(payload, from);
    if (heartbeat === null || !protocolsOverlap(heartbeat.protocols, PROTOCOLS)) {
      if (this.#strangers.size < MAX_STRANGERS && !this.#strangers.has(from)) {
        this.#strangers.add(from);
        const { id: node, version, protocols } = heartbeat ?? {};
        logger.error('node_not_understood', { peer: from, node, version, protocols, reason: whyNot(protocols) });
      }
      return;
    }
    const { leaving, testimony = null, number, wants, ...view } = heartbeat;
    this.#announce(view);
    this.#wanted.delete(from);
    const known = this.#known.get(from);
    if (leaving === true) this.#witnesses.left(from);
    else this.#witnesses.received(from, testimony, view.state === 'fenced');
    this.silent.delete(view.id);
    if (leaving === true) {
      if (known === undefined) this.#node.nodeLeaves(view);
      else this.#gone(view, `node ${view.id} has left`, true);
      return;
    }
    if (known === undefined) {
      this.#known.set(from, { view, number, lastSeenAt: clock.now() });
      logger.info('node_found', { node: view.id, peer: from, state: view.state });
      if (view.id === this.#deps.node) {
        const fix = 'set cluster.node, unless one of them is about to take the place of the other';
        logger.warn('node_name_taken', { node: view.id, peer: from, fix });
      }
      // With the next look: after an outage, one view for all nodes that were found.
      this.#sentAt = this.#viewSentAt = Number.NEGATIVE_INFINITY;
      this.#node.nodesChanged();
      return;
    }
    const { state, epoch } = known.view;
    known.lastSeenAt = clock.now();
    known.number = number;
    // In place, because other parts hold the same object.
    Object.assign(known.view, { full: undefined, inUse: undefined, unready: undefined }, view);
    this.#node.offerChanged(known.view);
    if (state !== view.state || epoch !== view.epoch) this.#node.nodeChanged(known.view);
    if (wants?.includes(bus.peer) === true) this.sendView();
  }

  #onBeat({ number, testimony, offer = 0, load = 0, busy = 0, owned = 0 }: Beat, from: string): void {
    if (from === this.#deps.bus.peer) this.#onOwnHeartbeat();
    if (from === this.#deps.bus.peer || this.#closed || this.#strangers.has(from)) return;
    const known = this.#known.get(from);
    if (known?.number !== number) this.#wanted.add(from);
    if (known === undefined) return;
    known.lastSeenAt = this.#deps.clock.now();
    Object.assign(known.view, { offer, load, busy, owned });
    this.#witnesses.received(from, testimony, known.view.state === 'fenced');
    this.#node.offerChanged(known.view);
  }

  #onOwnHeartbeat(): void {
    const now = this.#deps.clock.now();
    if (now - this.#ownHeartbeatAt >= DEAF_MS) this.#receivingSince = now;
    this.#ownHeartbeatAt = now;
  }

  #announce({ peer, addresses = [] }: NodeView): void {
    this.announced.delete(peer);
    this.announced.set(peer, addresses);
    if (this.announced.size > MAX_ANNOUNCED) this.announced.delete(this.announced.keys().next().value!);
  }

  #gone(view: NodeView, reason: string, left = false): void {
    if (left) this.announced.delete(view.peer);
    const { lastSeenAt } = this.#known.get(view.peer) ?? {};
    if (!this.#known.delete(view.peer)) return;
    // Nodes of autoscaled clusters drain, are killed, and never return under their names.
    if (!left && view.state !== 'draining') this.#keepSilent(view.id);
    this.#witnesses.silent(view.peer, lastSeenAt);
    this.#deps.logger.warn('node_gone', { node: view.id, peer: view.peer, reason });
    this.#deps.bus.peerLost(view.peer, reason, left);
    this.#node.nodeGone(view, left);
    this.#node.nodesChanged();
  }

  #keepSilent(id: string): void {
    // Another process may already have this name.
    if (id === this.#deps.node || this.named(id) !== null) return;
    const { clock } = this.#deps;
    const lostAt = clock.wall();
    this.silent.set(id, lostAt);
    clock.after(SILENT_MS, () => {
      if (this.silent.get(id) === lostAt) this.silent.delete(id);
    });
  }
}

/** The view as text, without the members that change often. */
function textOf({ offer: _, load: __, busy: ___, owned: ____, ...rest }: NodeView): string {
  return JSON.stringify(rest);
}

function readHeartbeat(payload: Buffer, from: string): Heartbeat | null {
  try {
    const { header } = unpackAnyFrame<Heartbeat>(payload);
    const { protocols, peer } = header;
    return peer === from && Array.isArray(protocols) && protocols.length === 2 ? header : null;
  } catch {
    return null;
  }
}

function whyNot(protocols: readonly [number, number] | undefined): string {
  if (protocols === undefined) return 'what it says of itself cannot be read';
  const spoken = (range: readonly [number, number]) => [...new Set(range)].join(' to ');
  const words = `it speaks protocol ${spoken(protocols)} and this node ${spoken(PROTOCOLS)}`;
  return `${words}: neither calls the other; upgrade by one version at a time`;
}
