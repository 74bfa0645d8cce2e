import { type ClientProfile, ownProcessKey } from '../../model/client-profile.ts';
import { LIST_KINDS, type ServerCatalog } from '../../model/server-catalog.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { singleFlight } from '../coalesced-reads.ts';
import { LruMap } from '../lru-map.ts';
import { ANY_SESSION, catalogKey, differing } from './catalog-codec.ts';
import type { ForeignCatalogs } from './foreign-catalogs.ts';
import type { OwnAdvertisement } from './own-advertisement.ts';
import type { Place, RemoteInstance } from './routing-table.ts';

const MAX_KEPT = 1_024;
const RETRY_MS = 1_000;

interface ProcessListsParts {
  readonly deps: Pick<ClusterDeps, 'clock' | 'local' | 'events'>;
  readonly own: Pick<OwnAdvertisement, 'listsOf'>;
  readonly catalogs: Pick<ForeignCatalogs, 'knownThere' | 'ownLists'>;
  /** Null: the process of this node serves the client. */
  readonly elsewhere: (place: Place, client: ClientProfile) => RemoteInstance | null;
}

interface KeptLists {
  /** The digest that the node advertised when they were read. */
  readonly of: string;
  readonly catalog: ServerCatalog | null;
}

/**
 * Lists of processes at other nodes that this node shows clients of those processes: lists of a single client's process that
 * differ from a fresh one's, and of a shared process that differ from this node's (decision 093). Advertisements have their
 * digests; equal lists are read once.
 */
export class ProcessLists {
  readonly #parts: ProcessListsParts;
  /** Digests of single clients' lists, by server and session key. */
  readonly #own = new Map<string, ReadonlyMap<string, string>>();
  /** Lists of single clients' processes, by server and digest. */
  readonly #ownKept = new LruMap<ServerCatalog>(MAX_KEPT);
  /** Shared servers that this node has and that another node lists differently. */
  readonly #differing = new Map<string, Place>();
  /** Lists of shared processes, by kind of client and node. */
  readonly #kept = new LruMap<KeptLists>(MAX_KEPT);
  readonly #reading = new Map<string, Promise<void>>();
  /** Reads in flight, by server or kind of client, and digest: of several nodes with equal lists only one is asked. */
  readonly #asked = new Map<string, Promise<ServerCatalog | null>>();

  constructor(parts: ProcessListsParts) {
    this.#parts = parts;
  }

  look(name: string, place: Place | undefined): void {
    this.#updateOwnLists(name, place);
    if (place !== undefined && isShared(place)) this.#compare(place);
    else this.#differing.delete(name);
  }

  /** The nodes whose lists the client sees instead of this one's, as text; empty for none. */
  listSourceKey(client: ClientProfile): string {
    const from = Array.from(this.#differing.values(), (place) => {
      const instance = this.#instanceFor(place, client);
      return instance === null ? '' : ` ${place.server.name} ${instance.node.peer}`;
    });
    return from.sort().join('');
  }

  /** Null if the client sees the lists of a fresh process or of this node's, or if others are not known yet. */
  known(place: Place, client: ClientProfile): ServerCatalog | null {
    const { name } = place.server;
    const key = this.keyOf(place, client);
    if (key !== null) return this.#ownKept.get(`${name}\n${this.#own.get(name)?.get(key)}`) ?? null;
    const instance = this.#instanceFor(place, client);
    if (instance === null) return null;
    void this.#current(instance, place, client);
    return this.#kept.get(nameOf(instance, place, client))?.catalog ?? null;
  }

  /** Like `known`, after reading the lists of a shared process. */
  async get(place: Place, client: ClientProfile): Promise<ServerCatalog | null> {
    const instance = this.#instanceFor(place, client);
    if (instance !== null) await this.#current(instance, place, client);
    return this.known(place, client);
  }

  /** Session key of the client's process at another node, if that process has its own lists; otherwise null. */
  keyOf({ server, process }: Place, client: ClientProfile): string | null {
    const own = process ? this.#own.get(server.name) : undefined;
    if (own === undefined) return null;
    const key = ownProcessKey(server, client);
    return own.has(key) ? key : null;
  }

  async settled(): Promise<void> {
    await Promise.all(this.#asked.values());
  }

  #updateOwnLists(server: string, place: Place | undefined): void {
    if (place?.process !== true && !this.#own.has(server)) return;
    const before = this.#own.get(server) ?? new Map<string, string>();
    const digests = new Map<string, string>();
    this.#own.set(server, digests);
    for (const instance of place?.process === true ? place.otherInstances : []) {
      for (const [key, digest] of Object.entries(instance.advertised.own ?? {})) {
        digests.set(key, digest);
        if (before.get(key) !== digest) void this.#take(instance, key, digest, before.get(key));
      }
    }
    if (digests.size === 0) this.#own.delete(server);
    for (const [key, digest] of before) {
      const shown = digests.has(key) ? undefined : this.#ownKept.get(`${server}\n${digest}`);
      if (shown !== undefined) this.#parts.deps.events.catalogChanged(server, shown.fingerprint, LIST_KINDS, key);
    }
  }

  async #take(instance: RemoteInstance, key: string, digest: string, before: string | undefined): Promise<void> {
    const { deps, catalogs } = this.#parts;
    const server = instance.advertised.definition.name;
    const name = `${server}\n${digest}`;
    const shown = this.#ownKept.get(`${server}\n${before}`) ?? null;
    const ask = (): Promise<ServerCatalog | null> => catalogs.ownLists(instance, key);
    const catalog = this.#ownKept.get(name) ?? (await singleFlight(this.#asked, name, ask));
    const isCurrent = (): boolean => this.#own.get(server)?.get(key) === digest;
    if (catalog === null) {
      deps.clock.after(RETRY_MS, () => {
        if (isCurrent()) void this.#take(instance, key, digest, before);
      });
      return;
    }
    if (catalog.digest !== digest) return;
    this.#ownKept.set(name, catalog);
    if (isCurrent()) deps.events.catalogChanged(server, catalog.fingerprint, differing(shown, catalog), key);
  }

  #instanceFor(place: Place, client: ClientProfile): RemoteInstance | null {
    if (client.sessionId === null || !this.#differing.has(place.server.name)) return null;
    const instance = this.#parts.elsewhere(place, client);
    return instance !== null && this.#differs(instance) ? instance : null;
  }

  #differs({ advertised: { definition, lists } }: RemoteInstance): boolean {
    return lists !== undefined && lists !== this.#parts.own.listsOf(definition.name);
  }

  /** Reads differing lists at once, so that sessions are notified of changes that they have not asked for. */
  #compare(place: Place): void {
    const { name } = place.server;
    const differing = place.otherInstances.filter((instance) => this.#differs(instance));
    if (differing.length > 0) this.#differing.set(name, place);
    else this.#differing.delete(name);
    if (differing.length === 0) return;
    const here = this.#parts.deps.local.knownCatalog(name, ANY_SESSION, true);
    const client = { ...ANY_SESSION, fingerprint: here?.fingerprint ?? '' };
    for (const instance of differing) void this.#current(instance, place, client);
  }

  #retry(name: string, server: string): void {
    this.#kept.delete(name);
    const place = this.#differing.get(server);
    if (place !== undefined) this.#compare(place);
  }

  #current(instance: RemoteInstance, place: Place, client: ClientProfile): Promise<void> | undefined {
    const name = nameOf(instance, place, client);
    if (this.#kept.get(name)?.of === instance.advertised.lists) return this.#reading.get(name);
    return singleFlight(this.#reading, name, () => this.#read(name, instance, place, client));
  }

  async #read(name: string, instance: RemoteInstance, place: Place, client: ClientProfile): Promise<void> {
    const { deps, catalogs } = this.#parts;
    const { definition, lists } = instance.advertised;
    const kind = `${catalogKey(place.server, client)}\n`;
    // Equal lists may be known from another node, or from the previous process of that node.
    const equal = this.#kept.entries().find(([other, { of }]) => of === lists && other.startsWith(kind));
    const before = this.#kept.peek(name)?.catalog ?? deps.local.knownCatalog(definition.name, client, true);
    const ask = (): Promise<ServerCatalog | null> => catalogs.knownThere(instance, client, null);
    const catalog = equal?.[1].catalog ?? (await singleFlight(this.#asked, `${kind}${lists}`, ask));
    this.#kept.set(name, { of: lists!, catalog: catalog ?? this.#kept.peek(name)?.catalog ?? null });
    if (catalog === null) deps.clock.after(RETRY_MS, () => this.#retry(name, definition.name));
    else if (catalog.digest !== before?.digest)
      deps.events.catalogChanged(definition.name, catalog.fingerprint, differing(before, catalog));
  }
}

function isShared({ here, process, server, otherInstances }: Place): boolean {
  return here && process && server.isolation === 'shared' && otherInstances.length > 0;
}

function nameOf({ node }: RemoteInstance, { server }: Place, client: ClientProfile): string {
  return `${catalogKey(server, client)}\n${node.peer}`;
}
