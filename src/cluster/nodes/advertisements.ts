import type { Bus } from '../../bus/bus.ts';
import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { CoalescedReads } from '../coalesced-reads.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import type { NodeView } from './node-state.ts';
import type { Nodes } from './nodes.ts';
import type { AdvertisedServer, Advertisement } from './own-advertisement.ts';

const READ_MS = 5_000;
const AGAIN_MS = 250;
/** Servers of one node that are taken note of. */
const MAX_SERVERS = 10_000;

export interface AdvertisementsDeps {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly nodes: Nodes;
  readonly logger: Logger;
  readonly own: () => Advertisement;
  /** What some other node offers has changed. */
  readonly changed: () => void;
}

interface Known {
  readonly version: number;
  readonly servers: readonly AdvertisedServer[];
}

/** What the other nodes have to offer: read from them whenever their heartbeats name a version that is not known. */
export class Advertisements {
  readonly #deps: AdvertisementsDeps;
  readonly #known = new Map<string, Known>();
  readonly #readings = new CoalescedReads<void>();
  readonly #serving: { close(): void };
  #disarm: (() => void) | null = null;
  #closed = false;

  constructor(deps: AdvertisementsDeps) {
    this.#deps = deps;
    this.#serving = deps.bus.serve(`trunkline.offer.${deps.bus.peer}`, (serving) => {
      serving.answer(packFrame(deps.own()));
    });
  }

  /** null while nothing was read of the node. */
  of(peer: string): readonly AdvertisedServer[] | null {
    return this.#known.get(peer)?.servers ?? null;
  }

  /** Heartbeats said something new. */
  refresh(): void {
    if (this.#closed) return;
    for (const peer of [...this.#known.keys()]) {
      if (this.#deps.nodes.get(peer) === null) this.#known.delete(peer);
    }
    for (const node of this.#deps.nodes.others()) {
      if (this.#readings.has(node.peer) || this.#known.get(node.peer)?.version === node.offer) continue;
      void this.#readings.begin(node.peer, () => this.#read(node));
    }
  }

  /** Reads what these nodes offer now, whatever their heartbeats have said. */
  async readNow(peers: readonly string[]): Promise<void> {
    const read = async (peer: string): Promise<void> => {
      const node = this.#closed ? null : this.#deps.nodes.get(peer);
      if (node !== null) await this.#read(node);
    };
    await Promise.all(peers.map((peer) => this.#readings.get(peer, () => read(peer))));
  }

  close(): void {
    this.#closed = true;
    this.#disarm?.();
    this.#serving.close();
  }

  async #read({ peer, id }: NodeView): Promise<void> {
    const { bus, nodes, logger, clock, changed } = this.#deps;
    try {
      const call = bus.call(`trunkline.offer.${peer}`, packFrame({}), { to: peer, deadlineMs: READ_MS });
      const outcome = await call.outcome;
      if (outcome.kind === 'failure') throw outcome.error;
      const { version, servers } = unpackFrame<Advertisement>(outcome.payload).header;
      if (this.#closed || nodes.get(peer) === null) return;
      this.#known.set(peer, { version, servers: servers.slice(0, MAX_SERVERS) });
      changed();
    } catch (error) {
      if (this.#closed) return;
      logger.warn('offer_not_read', { node: id, error: error instanceof Error ? error.message : String(error) });
    }
    // It may have failed, or the node may have said something newer meanwhile.
    this.#disarm ??= clock.after(AGAIN_MS, () => {
      this.#disarm = null;
      this.refresh();
    });
  }
}
