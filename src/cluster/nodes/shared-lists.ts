import type { ClientProfile } from '../../model/client-profile.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { joined } from '../coalesced-reads.ts';
import { LruMap } from '../lru-map.ts';
import { ANY_SESSION, catalogKey, differing } from './catalog-codec.ts';
import type { ForeignCatalogs } from './foreign-catalogs.ts';
import type { OwnAdvertisement } from './own-advertisement.ts';
import type { Place, RemoteInstance } from './routing-table.ts';

const MAX_KEPT = 1_024;
const AGAIN_MS = 1_000;

interface SharedListsParts {
  readonly deps: Pick<ClusterDeps, 'clock' | 'local' | 'events'>;
  readonly own: Pick<OwnAdvertisement, 'changed' | 'listsOf'>;
  readonly catalogs: Pick<ForeignCatalogs, 'knownThere'>;
  /** Null: the process of this node serves the client. */
  readonly elsewhere: (place: Place, client: ClientProfile) => RemoteInstance | null;
}

interface KeptLists {
  /** The digest that the node advertised when they were read. */
  readonly of: string;
  readonly catalog: ServerCatalog | null;
}

/**
 * Lists of a shared server's processes at other nodes that differ from those of this node's: a session is shown those of its
 * process (decision 093). Advertisements name the digests; what is equal is not read.
 */
export class SharedLists {
  readonly #parts: SharedListsParts;
  /** Shared servers that this node has, too. */
  #places = new Map<string, Place>();
  /** Those of them that some other node lists otherwise. */
  #differing = new Map<string, Place>();
  readonly #kept = new LruMap<KeptLists>(MAX_KEPT);
  readonly #reading = new Map<string, Promise<void>>();
  /** By kind of client and digest: nodes that list the same are not all asked. */
  readonly #asked = new Map<string, Promise<ServerCatalog | null>>();

  constructor(parts: SharedListsParts) {
    this.#parts = parts;
    parts.own.changed = () => this.#compare();
  }

  look(places: ReadonlyMap<string, Place>): void {
    this.#places = new Map([...places].filter(([, place]) => isShared(place)));
    this.#compare();
  }

  lookAt(place: Place): void {
    const { name } = place.server;
    if (isShared(place)) this.#places.set(name, place);
    else if (!this.#places.delete(name)) return;
    this.#compare();
  }

  /** The nodes whose lists the client is shown instead of this one's; empty for none. */
  shownFrom(client: ClientProfile): string {
    let from = '';
    for (const place of this.#differing.values()) {
      const instance = this.#instanceFor(place, client);
      if (instance !== null) from += ` ${place.server.name} ${instance.node.peer}`;
    }
    return from;
  }

  /** Null: the client is shown what this node lists, or nothing else is known yet. */
  known(place: Place, client: ClientProfile): ServerCatalog | null {
    const instance = this.#instanceFor(place, client);
    if (instance === null) return null;
    void this.#current(instance, place, client);
    return this.#kept.get(keyOf(instance, place, client))?.catalog ?? null;
  }

  /** The same, after it was read. */
  async get(place: Place, client: ClientProfile): Promise<ServerCatalog | null> {
    const instance = this.#instanceFor(place, client);
    if (instance === null) return null;
    await this.#current(instance, place, client);
    return this.known(place, client);
  }

  #instanceFor(place: Place, client: ClientProfile): RemoteInstance | null {
    if (client.sessionId === null || !this.#differing.has(place.server.name)) return null;
    const instance = this.#parts.elsewhere(place, client);
    return instance !== null && this.#differs(instance) ? instance : null;
  }

  #differs({ advertised: { definition, lists } }: RemoteInstance): boolean {
    return lists !== undefined && lists !== this.#parts.own.listsOf(definition.name);
  }

  /** Sessions are notified of what they have not asked for. */
  #compare(): void {
    const { local } = this.#parts.deps;
    const differs = (instance: RemoteInstance): boolean => this.#differs(instance);
    this.#differing = new Map([...this.#places].filter(([, place]) => place.otherInstances.some(differs)));
    for (const [name, place] of this.#differing) {
      const here = local.knownCatalog(name, ANY_SESSION, true);
      const client = { ...ANY_SESSION, fingerprint: here?.fingerprint ?? '' };
      for (const instance of place.otherInstances.filter(differs)) void this.#current(instance, place, client);
    }
  }

  #current(instance: RemoteInstance, place: Place, client: ClientProfile): Promise<void> | undefined {
    const key = keyOf(instance, place, client);
    if (this.#kept.get(key)?.of === instance.advertised.lists) return this.#reading.get(key);
    return joined(this.#reading, key, () => this.#read(key, instance, place, client));
  }

  async #read(key: string, instance: RemoteInstance, place: Place, client: ClientProfile): Promise<void> {
    const { deps, catalogs } = this.#parts;
    const { definition, lists } = instance.advertised;
    const kind = `${catalogKey(place.server, client)}\n`;
    // As of another node, or of the former process of this one.
    const equal = this.#kept.entries().find(([other, { of }]) => of === lists && other.startsWith(kind));
    const before = this.#kept.peek(key)?.catalog ?? deps.local.knownCatalog(definition.name, client, true);
    const ask = (): Promise<ServerCatalog | null> => catalogs.knownThere(instance, client, null);
    const catalog = equal?.[1].catalog ?? (await joined(this.#asked, `${kind}${lists}`, ask));
    this.#kept.set(key, { of: lists!, catalog: catalog ?? this.#kept.peek(key)?.catalog ?? null });
    if (catalog === null) deps.clock.after(AGAIN_MS, () => this.#kept.delete(key));
    else if (catalog.digest !== before?.digest)
      deps.events.catalogChanged(definition.name, catalog.fingerprint, differing(before, catalog));
  }
}

function isShared({ here, process, server, otherInstances }: Place): boolean {
  return here && process && server.isolation === 'shared' && otherInstances.length > 0;
}

function keyOf({ node }: RemoteInstance, { server }: Place, client: ClientProfile): string {
  return `${catalogKey(server, client)}\n${node.peer}`;
}
