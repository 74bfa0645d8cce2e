import { isDeepStrictEqual } from 'node:util';
import { inflateRawSync } from 'node:zlib';
import { messageOf } from '../../model/thrown.ts';
import type { ClusterDeps, ThisNode } from '../cluster-deps.ts';
import { CoalescedReads } from '../coalesced-reads.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import { LruMap } from '../lru-map.ts';
import {
  type AdvertisedServer,
  type AdvertisedText,
  type Advertisement,
  type Definition,
  type OfferChange,
  ReceivedServer,
} from './advertised.ts';
import type { ServerText } from './foreign-server.ts';
import type { NodeView } from './node-state.ts';
import type { Nodes } from './nodes.ts';
import { OFFERED, type OwnAdvertisement } from './own-advertisement.ts';

const NAME = 'trunkline.offer';
const READ_MS = 5_000;
/** How long the advertisement of a lost node is kept: if the node returns in time, only its changes are read. */
const KEEP_LOST_MS = 60_000;
const MAX_SERVERS = 10_000;
export const MAX_INFLATED = 256 * 1024 * 1024;

interface OfferRequest {
  /** The version that the asking node has. */
  readonly since?: number;
  readonly deflate?: boolean;
  /** Asks for definitions and statuses as JSON text; absent from nodes of earlier versions. */
  readonly texts?: boolean;
  /** Asks also for unpublished changes; absent from nodes of earlier versions, for which it is true. */
  readonly fresh?: boolean;
}

interface KnownAdvertisement {
  version: number;
  readonly servers: Map<string, ReceivedServer>;
  /** When the node was lost; Infinity while it is present and its changes were read. */
  lostAt: number;
}

/**
 * The advertisements of the other nodes: read when a node is found, then updated by the changes that it publishes. A newer
 * version in a heartbeat means that this node missed a change: it reads the changes since its version.
 */
export class Advertisements {
  readonly #deps: Pick<ClusterDeps, 'bus' | 'clock' | 'logger'>;
  readonly #nodes: Nodes;
  readonly #node: Pick<ThisNode, 'serversChanged' | 'serversNeeded'>;
  readonly #known = new Map<string, KnownAdvertisement>();
  readonly #readings = new CoalescedReads<void>();
  /** Peers whose last read failed: each heartbeat retries it, and only the first failure is logged as a warning. */
  readonly #unread = new Set<string>();
  /** Number of complete advertisements read; it only grows. */
  completeReadings = 0;
  #willForget = false;
  /** Definitions by their JSON text, because many nodes have the same ones. */
  readonly #definitions = new LruMap<Definition>(MAX_SERVERS);

  constructor(
    deps: Pick<ClusterDeps, 'bus' | 'clock' | 'logger'>,
    nodes: Nodes,
    own: Pick<OwnAdvertisement, 'text'>,
    node: Pick<ThisNode, 'serversChanged' | 'serversNeeded'>,
  ) {
    this.#deps = deps;
    this.#nodes = nodes;
    this.#node = node;
    const { bus } = deps;
    bus.serve(NAME, (serving) => {
      const {
        since = null,
        deflate = false,
        texts = false,
        fresh = true,
      } = unpackFrame<OfferRequest>(serving.payload).header;
      serving.answer(own.text(since, { deflate, texts, fresh }));
    });
    bus.subscribe(`${OFFERED}.*`, (payload, from) => {
      if (from !== bus.peer) this.#changed(from, unpackFrame<OfferChange>(payload).header);
    });
  }

  /** The servers of the node; null before its first read, and after it returned until its changes were read. */
  of(peer: string): ReadonlyMap<string, AdvertisedServer> | null {
    const known = this.#known.get(peer);
    return known === undefined || isLost(known) ? null : known.servers;
  }

  /** Whether the advertisements of all other nodes were read. */
  get complete(): boolean {
    return [...this.#nodes.others()].every(({ peer }) => this.of(peer) !== null);
  }

  refresh(): void {
    const { clock } = this.#deps;
    const now = clock.now();
    for (const [peer, known] of this.#known) {
      const node = this.#nodes.get(peer);
      if (node === null) known.lostAt = Math.min(known.lostAt, now);
      else if (isLost(known) && known.version >= node.offer) {
        known.lostAt = Number.POSITIVE_INFINITY;
        this.#node.serversChanged(known.servers.keys(), peer);
      }
      if (now - known.lostAt >= KEEP_LOST_MS) this.#known.delete(peer);
    }
    const lostAt = Math.min(...this.#known.values().map((known) => known.lostAt));
    for (const peer of this.#unread) if (this.#nodes.get(peer) === null) this.#unread.delete(peer);
    for (const node of this.#nodes.others()) this.look(node);
    if (this.#willForget || lostAt === Number.POSITIVE_INFINITY) return;
    this.#willForget = true;
    clock.after(lostAt + KEEP_LOST_MS - now, () => {
      this.#willForget = false;
      this.refresh();
    });
  }

  /** Reads the changes that this node lacks; the next heartbeat retries. Published changes may be newer than a heartbeat. */
  look(node: NodeView): void {
    if (this.#readings.has(node.peer) || (this.#known.get(node.peer)?.version ?? -1) >= node.offer) return;
    void this.#readings.begin(node.peer, () => this.#read(node, false));
  }

  /** Reads the current advertisements of these peers and updates the routing table. Never rejects. */
  async readNow(peers: readonly string[]): Promise<void> {
    const read = async (peer: string): Promise<void> => {
      const node = this.#nodes.get(peer);
      if (node !== null) await this.#read(node, true);
    };
    await Promise.all(peers.map((peer) => this.#readings.get(peer, () => read(peer))));
    this.#node.serversNeeded();
  }

  async #read({ peer, id }: NodeView, fresh: boolean): Promise<void> {
    const { bus, logger } = this.#deps;
    try {
      const known = this.#known.get(peer);
      const since = known === undefined ? {} : { since: known.version };
      const request: OfferRequest = { ...since, deflate: true, texts: true, fresh };
      const outcome = await bus.call(NAME, packFrame(request), { to: peer, deadlineMs: READ_MS }).outcome;
      if (outcome.kind === 'failure') throw outcome.error;
      if (this.#nodes.get(peer) === null) return;
      this.#take(peer, advertisementIn(outcome.payload));
      this.#unread.delete(peer);
    } catch (error) {
      const level = this.#unread.has(peer) ? 'debug' : 'warn';
      if (this.#nodes.get(peer) !== null) this.#unread.add(peer);
      logger[level]('offer_not_read', { node: id, error: messageOf(error) });
    }
  }

  #take(peer: string, { version, since, servers, removed = [] }: Advertisement): void {
    const known = this.#known.get(peer);
    if (since === undefined) {
      const named = servers.slice(0, MAX_SERVERS).map((server) => this.#receivedServer(server));
      const byName = new Map(named.map((server) => [server.definition.name, server]));
      this.#known.set(peer, { version, servers: byName, lostAt: Number.POSITIVE_INFINITY });
      this.completeReadings++;
      this.#node.serversChanged([...(known?.servers.keys() ?? []), ...byName.keys()], peer);
    } else if (known !== undefined && version >= known.version) {
      // Otherwise a change published in the meantime is newer.
      this.#apply(peer, known, { version, changed: servers.map((server) => ({ server })), removed });
    }
  }

  #changed(peer: string, change: OfferChange): void {
    const { version, changed } = change;
    const known = this.#known.get(peer);
    const node = this.#nodes.get(peer);
    // Changes of a node that is lost at the moment are read when it is found again.
    if (known === undefined || version <= known.version || node === null) return;
    const applies = version === known.version + 1;
    if (!applies || changed.some((change) => 'name' in change && !known.servers.has(change.name)))
      this.look({ ...node, offer: version });
    else this.#apply(peer, known, change);
  }

  #apply(peer: string, known: KnownAdvertisement, { version, changed, removed }: OfferChange): void {
    const isBack = isLost(known);
    const names = new Set([...removed, ...(isBack ? known.servers.keys() : [])]);
    known.version = version;
    known.lostAt = Number.POSITIVE_INFINITY;
    for (const name of removed) known.servers.delete(name);
    for (const change of changed) {
      if ('name' in change) known.servers.get(change.name)!.apply(change.members);
      names.add('name' in change ? change.name : this.#put(known, change.server));
    }
    if (isBack || names.size > 0) this.#node.serversChanged(names, peer);
  }

  /** Returns the server's name. */
  #put({ servers }: KnownAdvertisement, server: AdvertisedServer | AdvertisedText): string {
    const received = this.#receivedServer(server);
    const { name } = received.definition;
    if (servers.has(name) || servers.size < MAX_SERVERS) servers.set(name, received);
    return name;
  }

  #receivedServer(server: AdvertisedServer | AdvertisedText): ReceivedServer {
    const { definition } = server;
    const text = typeof definition === 'string' ? definition : JSON.stringify(definition);
    let known = this.#definitions.get(text);
    if (known === undefined || !isDeepStrictEqual(known.digests, server.digests)) {
      const parsed = typeof definition === 'string' ? (JSON.parse(definition) as ServerText) : definition;
      known = { definition: known?.definition ?? parsed, digests: server.digests };
      this.#definitions.set(text, known);
    }
    return new ReceivedServer(known, server);
  }
}

function isLost({ lostAt }: KnownAdvertisement): boolean {
  return lostAt < Number.POSITIVE_INFINITY;
}

export function advertisementIn(payload: Buffer): Advertisement {
  const { header, pieces } = unpackFrame<Advertisement & { readonly deflated?: boolean }>(payload);
  if (header.deflated !== true) return header;
  return JSON.parse(inflateRawSync(pieces[0]!, { maxOutputLength: MAX_INFLATED }).toString()) as Advertisement;
}
