import type { ClientProfile } from '../../model/client-profile.ts';
import { pause, withTimeout } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import type { ListKind, ServerCatalog } from '../../model/server-catalog.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { CoalescedReads } from '../coalesced-reads.ts';
import { LruMap } from '../lru-map.ts';
import type { Advertisements } from './advertisements.ts';
import { catalogKey } from './catalog-codec.ts';
import type { ForeignCatalogs, ShownCatalogs } from './foreign-catalogs.ts';
import type { ProcessLists } from './process-lists.ts';
import type { Place, RemoteInstance } from './routing-table.ts';

const FIND_MS = 2_000;
/** How long a name that was not found is not looked up again. */
const FUTILE_MS = 1_000;
const MAX_FUTILE = 1_024;

interface ListsElsewhereParts {
  readonly deps: Pick<ClusterDeps, 'clock' | 'local' | 'events'>;
  readonly advertisements: Advertisements;
  readonly catalogs: ForeignCatalogs;
  readonly shown: ShownCatalogs;
  readonly processes: Pick<ProcessLists, 'settled'>;
}

/** Numbers of announced changes and of changed catalogs, as last advertised by an instance. */
interface AdvertisedCounts {
  readonly peer: string;
  readonly changes: number;
  readonly catalogs: number;
}

/**
 * Finds lists of a server that other instances know and this node does not. One node listens to a session of an HTTP server; the
 * others list the server again when that node was notified. Looks up names that were not announced when a client uses them.
 */
export class ListsElsewhere {
  readonly #parts: ListsElsewhereParts;
  /** Last counts by server, in the order of its instances. */
  readonly #counts = new Map<string, readonly AdvertisedCounts[]>();
  /** Listings in flight, by server. */
  readonly #relisting = new Map<string, Promise<unknown>>();
  readonly #asking = new CoalescedReads<readonly ServerCatalog[]>();
  readonly #reading = new CoalescedReads<ServerCatalog | null>();
  readonly #delayed = new Map<string, Promise<ServerCatalog | null>>();
  readonly #futile = new LruMap<number>(MAX_FUTILE);

  constructor(parts: ListsElsewhereParts) {
    this.#parts = parts;
  }

  look(name: string, place: Place | undefined): void {
    const before = this.#counts.get(name) ?? [];
    if (place?.here === true && place.otherInstances.length > 0) {
      this.#counts.set(
        name,
        place.otherInstances.map((instance, i) => this.#compared(place, instance, before, i)),
      );
    } else this.#counts.delete(name);
  }

  #compared(
    place: Place,
    { node: { peer }, advertised }: RemoteInstance,
    before: readonly AdvertisedCounts[],
    i: number,
  ): AdvertisedCounts {
    const { changes = 0, catalogs } = advertised;
    const was = before[i]?.peer === peer ? before[i] : before.find((one) => one.peer === peer);
    if (was?.changes === changes && was.catalogs === catalogs) return was;
    if (changes !== (was?.changes ?? 0)) this.#listsChanged(place);
    if (catalogs !== (was?.catalogs ?? catalogs)) this.#parts.deps.events.listedElsewhere?.(place.server.name);
    return { peer, changes, catalogs };
  }

  /** Looks up an unknown name that another instance may have, for at most `FIND_MS`. False if no other instance has it. */
  foundElsewhere(place: Place, exchange: Exchange, list: ListKind, name: string): Promise<boolean> {
    const behindUrl = place.here && !place.process;
    const looked = behindUrl
      ? this.#lookedFor(place, exchange, list, name)
      : this.#readAgain(place, exchange.client, list, name);
    return withTimeout(this.#parts.deps.clock, FIND_MS, looked, () => true);
  }

  /** Clients may invent names: after a futile read, the next one waits `FUTILE_MS` and serves all look-ups until then. */
  async #readAgain(place: Place, client: ClientProfile, list: ListKind, name: string): Promise<boolean> {
    const kind = catalogKey(place.server, client);
    const shown = await (this.#delayed.get(kind) ?? this.#readWhenDue(kind, () => this.#readShown(place, client)));
    if (!has(shown, list, name)) this.#futile.set(kind, this.#parts.deps.clock.now() + FUTILE_MS);
    return true;
  }

  #readWhenDue(kind: string, read: () => Promise<ServerCatalog | null>): Promise<ServerCatalog | null> {
    const { clock } = this.#parts.deps;
    const tooSoonMs = (this.#futile.peek(kind) ?? 0) - clock.now();
    if (tooSoonMs <= 0) return this.#reading.get(kind, read);
    const delayed = pause(clock, tooSoonMs).then(() => {
      this.#delayed.delete(kind);
      return this.#reading.get(kind, read);
    });
    this.#delayed.set(kind, delayed);
    return delayed;
  }

  async #readShown({ server: { name }, otherInstances }: Place, client: ClientProfile): Promise<ServerCatalog | null> {
    const { advertisements, catalogs, shown, processes } = this.#parts;
    await advertisements.readNow(otherInstances.map(({ node }) => node.peer));
    await this.#relisting.get(name);
    await processes.settled();
    const instance = shown.instanceOf(name);
    if (instance !== null) await catalogs.read(instance, client);
    return shown.knownCatalog(name, client);
  }

  /**
   * Each instance lists the server itself; this node lists it again only if another instance knows the name, so that invented
   * names cost the server nothing.
   */
  async #lookedFor(place: Place, exchange: Exchange, list: ListKind, name: string): Promise<boolean> {
    const { local, clock } = this.#parts.deps;
    const { client } = exchange;
    const server = place.server.name;
    const kind = catalogKey(place.server, client);
    const others = await this.#asking.get(kind, async () => {
      const known = local.knownCatalog(server, client);
      const asked = place.otherInstances.map((instance) => this.#parts.catalogs.knownThere(instance, client, known));
      const answers = await Promise.all(asked);
      return answers.filter((catalog) => catalog !== null);
    });
    if (has(local.knownCatalog(server, client), list, name)) return true;
    if (!others.some((catalog) => has(catalog, list, name))) return false;
    if (clock.now() < (this.#futile.peek(kind) ?? 0)) return false;
    // A connection opened to list for a session that has ended would never be closed.
    if (exchange.cancelled !== null) return false;
    await local.relistFor(server, client);
    if (!has(local.knownCatalog(server, client), list, name)) this.#futile.set(kind, clock.now() + FUTILE_MS);
    return true;
  }

  /** `ProcessLists` handles the changes of processes. */
  #listsChanged({ server: { name }, process }: Place): void {
    if (process) return;
    const all = Promise.allSettled([this.#relisting.get(name), this.#parts.deps.local.relist(name)]);
    this.#relisting.set(name, all);
    void all.then(() => {
      if (this.#relisting.get(name) === all) this.#relisting.delete(name);
    });
  }
}

function has(catalog: ServerCatalog | null, list: ListKind, name: string): boolean {
  return catalog?.lists[list].items.some(({ key }) => key === name) ?? false;
}
