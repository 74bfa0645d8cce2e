import { deflateRawSync } from 'node:zlib';
import { isOwnProcess, type Server } from '../../model/server.ts';
import { DOWN, type ServerStatus } from '../../model/server-state.ts';
import type { ClusterDeps, ThisNode } from '../cluster-deps.ts';
import { packFrame } from '../frames/frame.ts';
import {
  type AdvertisedServer,
  type Advertisement,
  advertisedText,
  changeOf,
  type OfferChange,
  type ServerChange,
} from './advertised.ts';
import { ANY_SESSION } from './catalog-codec.ts';
import { definitionDigest } from './definition-digest.ts';
import { serverText } from './foreign-server.ts';
import type { Nodes } from './nodes.ts';

/** Coalesces bursts of changes. */
const SOON_MS = 50;
/** So that a restart is one message. What decides where calls go (`DOWN`, or where a singleton runs) waits only `SOON_MS`. */
const STATUS_MS = 1_000;
/** After changes of more servers than this at once, as when a node starts, the next ones wait `STATUS_MS`. */
const BURST = 8;
/** A larger change is not published: each node reads it, compressed. */
const MAX_PUBLISHED = 16 * 1024;
const MIN_DEFLATED = 4 * 1024;
/** Limit of remembered removals; a node with an older version reads everything. */
const MAX_REMOVED = 10_000;

/** Members that change with every call or that only the server's node shows in full; advertised as empty. */
const SHOWN_THERE: Partial<ServerStatus> = {
  connections: [],
  replicas: [],
  pool: { active: 0, idle: 0, closed: 0 },
  stderrTail: '',
  lastLaunchFailure: null,
  history: [],
  phases: null,
};

interface OfferForm {
  readonly deflate: boolean;
  /** Definitions and statuses as texts. */
  readonly texts: boolean;
  readonly fresh: boolean;
}

interface OwnOffer extends Advertisement {
  readonly servers: readonly AdvertisedServer[];
}

interface Recorded {
  readonly advertised: AdvertisedServer;
  /** Version of the advertisement in which the server changed last. */
  readonly version: number;
}

/**
 * The servers that this node has itself, each with the version in which it changed last. A change is published once, for all
 * nodes; a node that missed one reads the changes since its version.
 */
export class OwnAdvertisement {
  readonly #deps: ClusterDeps;
  readonly #nodes: Pick<Nodes, 'sendHeartbeat'>;
  readonly #node: Pick<ThisNode, 'serversChanged'>;
  /** The current one first. */
  readonly #keys: readonly Buffer[];
  readonly #digests = new WeakMap<Server, readonly string[]>();
  readonly #catalogs = new Map<string, number>();
  readonly #changes = new Map<string, number>();
  #servers = new Map<string, Server>();
  readonly #recorded = new Map<string, Recorded>();
  /** Version of the removal, by name. */
  readonly #removed = new Map<string, number>();
  readonly #dirty = new Set<string>();
  /** Removals up to this version are forgotten. */
  #since = 0;
  version = 1;
  /** Replies by the version of the asking node and the form; cleared when the version changes. */
  readonly #texts = new Map<string, Buffer[]>();
  #dueAt = Number.POSITIVE_INFINITY;
  #burstEnd = Number.NEGATIVE_INFINITY;
  #disarm: (() => void) | null = null;

  constructor(deps: ClusterDeps, nodes: Pick<Nodes, 'sendHeartbeat'>, node: Pick<ThisNode, 'serversChanged'>) {
    this.#node = node;
    this.#deps = deps;
    this.#nodes = nodes;
    this.#keys = [deps.key, ...(deps.previousKeys ?? [])];
  }

  /** Digest of the lists of this node's shared process. */
  listsOf(server: string): string | undefined {
    return this.#recorded.get(server)?.advertised.lists;
  }

  get servers(): Iterable<Server> {
    return this.#servers.values();
  }

  server(name: string): Server | undefined {
    return this.#servers.get(name);
  }

  /** Returns the names of the previous and the new servers. */
  replace(servers: Iterable<Server>): ReadonlySet<string> {
    const before = this.#servers;
    this.#servers = new Map();
    for (const server of servers) if (server.enabled) this.#servers.set(server.name, server);
    const names = new Set([...before.keys(), ...this.#servers.keys()]);
    for (const name of names) this.#dirty.add(name);
    this.#publishIn(SOON_MS);
    return names;
  }

  digests(server: Server): readonly string[] {
    let digests = this.#digests.get(server);
    if (digests === undefined) {
      digests = this.#keys.map((key) => definitionDigest(server, key));
      this.#digests.set(server, digests);
    }
    return digests;
  }

  catalogChanged(server: string): void {
    this.#catalogs.set(server, (this.#catalogs.get(server) ?? 0) + 1);
    this.ownListsChanged(server);
  }

  /** The server announced a change of its lists. */
  relisted(server: string): void {
    this.#changes.set(server, (this.#changes.get(server) ?? 0) + 1);
    this.ownListsChanged(server);
  }

  /** The lists of a single client's process changed. */
  ownListsChanged(server: string): void {
    this.#dirty.add(server);
    this.#publishIn(SOON_MS);
  }

  statusChanged(server: string, { state }: ServerStatus): void {
    const before = this.#recorded.get(server)?.advertised.status ?? null;
    const decides = before === null || DOWN.has(before.state) !== DOWN.has(state);
    this.#dirty.add(server);
    this.#publishIn(decides ? SOON_MS : STATUS_MS);
  }

  /**
   * The changes since that version; everything if it is null or unknown. Compressed if large and `deflate`. `fresh`: publishes
   * pending changes first.
   */
  text(since: number | null, { deflate, texts, fresh }: OfferForm): Buffer[] {
    // Otherwise a node that has just started would seem to have dropped its servers.
    if (fresh || since === null) this.#publish();
    const isKnown = since !== null && since >= this.#since && since <= this.version;
    const advertisement = (): OwnOffer => this.#after(isKnown ? since : null);
    if (!deflate) return packFrame(advertisement());
    const key = `${isKnown ? since : ''} ${texts}`;
    let text = this.#texts.get(key);
    if (text === undefined) this.#texts.set(key, (text = compressed(advertisement(), texts)));
    return text;
  }

  #after(since: number | null): OwnOffer {
    const changed = this.#recorded.values().filter((one) => one.version > (since ?? 0));
    const all = { version: this.version, servers: Array.from(changed, ({ advertised }) => advertised) };
    if (since === null) return all;
    const removed = [...this.#removed].filter(([, at]) => at > since).map(([name]) => name);
    return { ...all, since, removed };
  }

  #publishIn(ms: number): void {
    const { clock } = this.#deps;
    const now = clock.now();
    const dueAt = Math.max(now + ms, this.#burstEnd);
    if (dueAt >= this.#dueAt) return;
    this.#disarm?.();
    this.#dueAt = dueAt;
    this.#disarm = clock.after(dueAt - now, () => this.#publish());
  }

  #publish(): void {
    this.#disarm?.();
    this.#disarm = null;
    this.#dueAt = Number.POSITIVE_INFINITY;
    const version = this.version + 1;
    const changed: ServerChange[] = [];
    const removed: string[] = [];
    for (const name of this.#dirty) {
      const before = this.#recorded.get(name)?.advertised;
      const server = this.#servers.get(name);
      const advertised = server === undefined || server.misconfigured !== undefined ? null : this.#advertised(server);
      if (advertised !== null) {
        const change = before === undefined ? { server: advertised } : changeOf(before, advertised);
        if (change === null) continue;
        changed.push(change);
        this.#recorded.set(name, { advertised, version });
        this.#removed.delete(name);
      } else if (before !== undefined) {
        removed.push(name);
        this.#recorded.delete(name);
        this.#removed.set(name, version);
      }
    }
    const looked = new Set(this.#dirty);
    this.#dirty.clear();
    if (changed.length + removed.length === 0) return;
    if (this.#removed.size > MAX_REMOVED) {
      this.#removed.clear();
      this.#since = version;
    }
    this.version = version;
    if (changed.length > BURST) this.#burstEnd = this.#deps.clock.now() + STATUS_MS;
    this.#texts.clear();
    this.#node.serversChanged(looked);
    const message = packFrame({ version, changed, removed } satisfies OfferChange);
    if (message.reduce((sum, { length }) => sum + length, 0) > MAX_PUBLISHED) this.#nodes.sendHeartbeat();
    else this.#deps.bus.publish(`${OFFERED}.${this.#deps.bus.peer}`, message);
  }

  #advertised(server: Server): AdvertisedServer {
    const { name } = server;
    const changes = this.#changes.get(name);
    const { local, openers } = this.#deps;
    const own = local.ownLists(name);
    const status = local.status(name);
    // Other nodes compare the lists only if sessions keep their process.
    const shared = openers !== undefined && isOwnProcess(server) && server.isolation === 'shared';
    const lists = shared ? local.knownCatalog(name, ANY_SESSION, true)?.digest : undefined;
    return {
      definition: serverText(server, isOwnProcess(server)),
      digests: this.digests(server),
      status: status && { ...status, ...SHOWN_THERE },
      catalogs: this.#catalogs.get(name) ?? 0,
      ...(changes === undefined ? {} : { changes }),
      ...(lists === undefined ? {} : { lists }),
      ...(own.size === 0 ? {} : { own: Object.fromEntries(Array.from(own, ([key, { digest }]) => [key, digest])) }),
    };
  }
}

export const OFFERED = 'trunkline.offered';

function compressed({ servers, ...rest }: OwnOffer, texts: boolean): Buffer[] {
  const advertisement: Advertisement = { ...rest, servers: texts ? servers.map(advertisedText) : servers };
  const text = Buffer.from(JSON.stringify(advertisement));
  if (text.length < MIN_DEFLATED) return packFrame(advertisement);
  return packFrame({ deflated: true }, [deflateRawSync(text, { level: 1 })]);
}
