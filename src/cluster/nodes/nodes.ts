import type { ClusterDeps, ThisNode } from '../cluster-deps.ts';
import { OLDEST_PROTOCOL, PROTOCOL, packFrame, SHORT_FORM, unpackAnyFrame } from '../frames/frame.ts';
import { type NodeView, understand } from './node-state.ts';
import type { Testimony, Witnesses } from './witnesses.ts';

const HEARTBEAT_MS = 500;
/** While the store does not answer, leases depend on them. */
const LATE_HEARTBEAT_MS = 200;
/** Three heartbeats. */
const LOST_MS = 3 * HEARTBEAT_MS;
const LOOK_MS = 100;
/** A look this late means that this process stood still. */
const STALL_MS = 400;
/** A node that stood still for longer may have counted as gone. */
const ABSENCE_MS = LOST_MS - HEARTBEAT_MS - 2 * LOOK_MS;
/** Of nodes that are not understood; each is logged once. */
const MAX_STRANGERS = 256;
const MAX_ANNOUNCED = 8;
const SUBJECT = 'trunkline.node';
export const PROTOCOLS: readonly [number, number] = [OLDEST_PROTOCOL, PROTOCOL];

interface Heartbeat extends NodeView {
  readonly leaving?: boolean;
  /** Absent from nodes of earlier versions. */
  readonly testimony?: Testimony;
}

interface KnownNode {
  view: NodeView;
  heardAt: number;
}

/** The nodes of the cluster, by their heartbeats. The bus does not report the end of a node. */
export class Nodes {
  readonly #deps: Pick<ClusterDeps, 'bus' | 'clock' | 'logger'>;
  readonly #witnesses: Witnesses;
  readonly #node: ThisNode;
  readonly #known = new Map<string, KnownNode>();
  readonly #strangers = new Set<string>();
  readonly #announced = new Map<string, readonly string[]>();
  #lookedAt: number;
  #sentAt = Number.NEGATIVE_INFINITY;
  #stop: () => void = () => {};
  readonly #unsubscribe: { close(): void };
  #closed = false;

  constructor(deps: Pick<ClusterDeps, 'bus' | 'clock' | 'logger'>, witnesses: Witnesses, node: ThisNode) {
    this.#deps = deps;
    this.#witnesses = witnesses;
    this.#node = node;
    this.#lookedAt = deps.clock.now();
    witnesses.tell = () => this.tell();
    this.#unsubscribe = deps.bus.subscribe(`${SUBJECT}.*`, (payload, from) => this.#heard(payload, from));
  }

  get self(): NodeView {
    return this.#node.view;
  }

  /** Those that share a protocol with this node. */
  *others(): Iterable<NodeView> {
    for (const { view } of this.#known.values()) yield view;
  }

  /** Addresses by peer of the nodes heard last, also of those that this one lost together with the bus. */
  get announced(): ReadonlyMap<string, readonly string[]> {
    return this.#announced;
  }

  get(peer: string): NodeView | null {
    return this.#known.get(peer)?.view ?? null;
  }

  named(id: string): NodeView | null {
    let found: NodeView | null = null;
    for (const { view } of this.#known.values()) {
      if (view.id === id && (found === null || view.startedAt > found.startedAt)) found = view;
    }
    return found;
  }

  /** This node sorts first and all speak at least that protocol: for work that one node does. */
  first(protocol: number): boolean {
    for (const { view } of this.#known.values()) {
      if (view.protocols[1] < protocol || view.peer < this.#deps.bus.peer) return false;
    }
    return true;
  }

  start(): void {
    this.#look();
  }

  /** Has a lease, and was not heard: it may have died before this node began. */
  unheard(peer: string): void {
    if (!this.#known.has(peer)) this.#witnesses.silent(peer);
  }

  tell(leaving = false): void {
    if (this.#closed) return;
    const { bus, clock } = this.#deps;
    this.#sentAt = clock.now();
    const testimony = this.#witnesses.testify();
    const heartbeat: Heartbeat = { ...this.self, forms: SHORT_FORM, testimony, ...(leaving ? { leaving } : {}) };
    bus.publish(`${SUBJECT}.${bus.peer}`, packFrame(heartbeat));
  }

  close(): void {
    if (this.#closed) return;
    this.tell(true);
    this.#closed = true;
    this.#stop();
    this.#unsubscribe.close();
    this.#witnesses.close();
  }

  #look(): void {
    const { clock } = this.#deps;
    const now = clock.now();
    const late = now - this.#lookedAt - LOOK_MS;
    this.#lookedAt = now;
    // This process could not receive while it stood still: every node gets that time.
    if (late > STALL_MS) for (const known of this.#known.values()) known.heardAt += late;
    for (const { view, heardAt } of [...this.#known.values()]) {
      if (now - heardAt >= LOST_MS) this.#gone(view, `node ${view.id} sent nothing for ${LOST_MS} ms`);
    }
    // Each renewal of the lease sends one.
    const everyMs = this.#witnesses.late ? LATE_HEARTBEAT_MS : HEARTBEAT_MS + LOOK_MS;
    if (now - this.#sentAt >= everyMs - LOOK_MS / 2) this.tell();
    this.#stop = clock.after(LOOK_MS, () => this.#look());
    if (late > ABSENCE_MS) this.#node.backAgain();
  }

  #heard(payload: Buffer, from: string): void {
    const { bus, clock, logger } = this.#deps;
    if (from === bus.peer || this.#closed) return;
    const heartbeat = readHeartbeat(payload, from);
    if (heartbeat === null || !understand(heartbeat.protocols, PROTOCOLS)) {
      if (this.#strangers.size < MAX_STRANGERS && !this.#strangers.has(from)) {
        this.#strangers.add(from);
        const { id: node, version, protocols } = heartbeat ?? {};
        logger.error('node_not_understood', { peer: from, node, version, protocols, reason: whyNot(protocols) });
      }
      return;
    }
    const { leaving, testimony = null, ...view } = heartbeat;
    this.#announce(view);
    const known = this.#known.get(from);
    if (leaving !== true) this.#witnesses.received(from, testimony, view.state === 'fenced');
    if (leaving === true) {
      if (known === undefined) this.#node.nodeLeaves(view);
      else this.#gone(view, `node ${view.id} has left`, true);
      return;
    }
    if (known === undefined) {
      this.#known.set(from, { view, heardAt: clock.now() });
      logger.info('node_found', { node: view.id, peer: from, state: view.state });
      if (view.id === this.self.id) {
        const fix = 'set cluster.node, unless one of them is about to take the place of the other';
        logger.warn('node_name_taken', { node: view.id, peer: from, fix });
      }
      this.tell();
      this.#node.nodesChanged();
      return;
    }
    const before = known.view;
    known.heardAt = clock.now();
    if (before.state === view.state && before.epoch === view.epoch) {
      // Other changes need no event: the view has them.
      const { load, full, inUse, busy, owned, publicCalls, offer } = view;
      Object.assign(before, { load, full, inUse, busy, owned, publicCalls, offer });
      this.#node.offerChanged(before);
      return;
    }
    known.view = view;
    this.#node.nodesChanged();
  }

  #announce({ peer, addresses = [] }: NodeView): void {
    this.#announced.delete(peer);
    this.#announced.set(peer, addresses);
    if (this.#announced.size > MAX_ANNOUNCED) this.#announced.delete(this.#announced.keys().next().value!);
  }

  #gone(view: NodeView, reason: string, left = false): void {
    if (left) this.#announced.delete(view.peer);
    const { heardAt } = this.#known.get(view.peer) ?? {};
    if (!this.#known.delete(view.peer)) return;
    this.#witnesses.silent(view.peer, heardAt);
    this.#deps.logger.warn('node_gone', { node: view.id, peer: view.peer, reason });
    this.#deps.bus.peerLost(view.peer, reason, left);
    this.#node.nodeGone(view, left);
    this.#node.nodesChanged();
  }
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
