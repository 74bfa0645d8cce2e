import type { ClusterDeps, ThisNode } from '../cluster-deps.ts';
import { CoalescedReads } from '../coalesced-reads.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import type { NodeView } from './node-state.ts';
import type { Nodes } from './nodes.ts';
import type { AdvertisedServer, Advertisement, OwnAdvertisement } from './own-advertisement.ts';

const NAME = 'trunkline.offer';
const READ_MS = 5_000;
const AGAIN_MS = 250;
const MAX_SERVERS = 10_000;

/** Reads the advertisement of a node whenever its heartbeat names an unknown version. */
export class Advertisements {
  readonly #deps: Pick<ClusterDeps, 'bus' | 'clock' | 'logger'>;
  readonly #nodes: Nodes;
  readonly #node: Pick<ThisNode, 'serversChanged'>;
  readonly #known = new Map<string, Advertisement>();
  readonly #readings = new CoalescedReads<void>();
  readonly #serving: { close(): void };
  #disarm: (() => void) | null = null;
  #closed = false;

  constructor(
    deps: Pick<ClusterDeps, 'bus' | 'clock' | 'logger'>,
    nodes: Nodes,
    own: Pick<OwnAdvertisement, 'text'>,
    node: Pick<ThisNode, 'serversChanged'>,
  ) {
    this.#deps = deps;
    this.#nodes = nodes;
    this.#node = node;
    this.#serving = deps.bus.serve(NAME, (serving) => {
      serving.answer(packFrame(own.text()));
    });
  }

  /** Null before the first reading. */
  of(peer: string): readonly AdvertisedServer[] | null {
    return this.#known.get(peer)?.servers ?? null;
  }

  refresh(): void {
    if (this.#closed) return;
    for (const peer of [...this.#known.keys()]) {
      if (this.#nodes.get(peer) === null) this.#known.delete(peer);
    }
    for (const node of this.#nodes.others()) {
      if (this.#readings.has(node.peer) || this.#known.get(node.peer)?.version === node.offer) continue;
      void this.#readings.begin(node.peer, () => this.#read(node));
    }
  }

  /** Never rejects. */
  async readNow(peers: readonly string[]): Promise<void> {
    const read = async (peer: string): Promise<void> => {
      const node = this.#closed ? null : this.#nodes.get(peer);
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
    const { bus, logger, clock } = this.#deps;
    try {
      const call = bus.call(NAME, packFrame({}), { to: peer, deadlineMs: READ_MS });
      const outcome = await call.outcome;
      if (outcome.kind === 'failure') throw outcome.error;
      const { version, servers } = unpackFrame<Advertisement>(outcome.payload).header;
      if (this.#closed || this.#nodes.get(peer) === null) return;
      this.#known.set(peer, { version, servers: servers.slice(0, MAX_SERVERS) });
      this.#node.serversChanged();
    } catch (error) {
      if (this.#closed) return;
      logger.warn('offer_not_read', { node: id, error: error instanceof Error ? error.message : String(error) });
    }
    this.#disarm ??= clock.after(AGAIN_MS, () => {
      this.#disarm = null;
      this.refresh();
    });
  }
}
