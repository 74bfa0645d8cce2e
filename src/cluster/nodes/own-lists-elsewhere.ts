import { type ClientProfile, callerKey } from '../../model/client-profile.ts';
import type { UpstreamEvents } from '../../model/ports.ts';
import { LIST_KINDS, type ListKind, type ServerCatalog } from '../../model/server-catalog.ts';
import { LruMap } from '../lru-map.ts';
import type { Place, RemoteInstance } from './routing-table.ts';

/** Different lists that are kept; equal ones are kept once. */
const MAX_KEPT = 1_024;

/** Reads what the process behind a connection of another instance lists. Never rejects; null where that cannot be had. */
export interface OwnListsReader {
  ownLists(instance: RemoteInstance, key: string): Promise<ServerCatalog | null>;
}

interface Heard {
  readonly server: string;
  readonly key: string;
  readonly digest: string;
}

/**
 * What the processes of single sessions and principals at other nodes list, where that is not what a fresh process lists. Each
 * home's offer says of which connections that is so; the lists are read there once for all that are equal.
 */
export class OwnListsElsewhere {
  readonly #events: UpstreamEvents;
  readonly #catalogs: OwnListsReader;
  readonly #kept = new LruMap<ServerCatalog>(MAX_KEPT);
  /** What is offered, by server and key. */
  #heard = new Map<string, Heard>();
  readonly #reading = new Map<string, Promise<ServerCatalog | null>>();

  constructor(events: UpstreamEvents, catalogs: OwnListsReader) {
    this.#events = events;
    this.#catalogs = catalogs;
  }

  /** The homes' offers are others. */
  look(places: Iterable<Place>): void {
    const before = this.#heard;
    this.#heard = new Map();
    for (const { server, process, otherInstances } of places) {
      if (!process) continue;
      for (const instance of otherInstances) {
        for (const [key, digest] of Object.entries(instance.offered.own ?? {})) {
          const heard = { server: server.name, key, digest };
          const name = `${server.name}\n${key}`;
          this.#heard.set(name, heard);
          const old = before.get(name);
          if (old?.digest !== digest) void this.#take(instance, heard, old);
        }
      }
    }
    for (const [name, old] of before) {
      if (this.#heard.has(name)) continue;
      const shown = this.#of(old);
      if (shown !== null) this.#events.catalogChanged(old.server, shown.fingerprint, LIST_KINDS, old.key);
    }
  }

  /** null where the client has no process elsewhere, or one that lists what a fresh one does. */
  known(place: Place, client: ClientProfile): ServerCatalog | null {
    const heard = this.#heardOf(place, client);
    return heard === null ? null : this.#of(heard);
  }

  /** The key of the connection that serves the client elsewhere, where its lists are its own; else null. */
  keyOf(place: Place, client: ClientProfile): string | null {
    return this.#heardOf(place, client)?.key ?? null;
  }

  /** Resolves when all that was heard so far has been read. */
  async settled(): Promise<void> {
    await Promise.all(this.#reading.values());
  }

  #heardOf({ server, process }: Place, client: ClientProfile): Heard | null {
    if (!process || this.#heard.size === 0) return null;
    const key = callerKey(client, server.isolation === 'principal' ? 'principal' : 'session');
    return this.#heard.get(`${server.name}\n${key}`) ?? null;
  }

  #of({ server, digest }: Heard): ServerCatalog | null {
    return this.#kept.get(`${server}\n${digest}`) ?? null;
  }

  async #take(instance: RemoteInstance, heard: Heard, old: Heard | undefined): Promise<void> {
    const { server, key } = heard;
    const shown = old === undefined ? null : this.#of(old);
    const catalog = this.#of(heard) ?? (await this.#read(instance, heard));
    if (catalog === null || this.#heard.get(`${server}\n${key}`)?.digest !== heard.digest) return;
    this.#events.catalogChanged(server, catalog.fingerprint, differing(shown, catalog), key);
  }

  #read(instance: RemoteInstance, { server, key, digest }: Heard): Promise<ServerCatalog | null> {
    const name = `${server}\n${digest}`;
    let reading = this.#reading.get(name);
    if (reading === undefined) {
      reading = this.#catalogs.ownLists(instance, key).then((catalog) => {
        this.#reading.delete(name);
        // It may have changed again since.
        if (catalog !== null) this.#kept.set(`${server}\n${catalog.digest}`, catalog);
        return catalog?.digest === digest ? catalog : null;
      });
      this.#reading.set(name, reading);
    }
    return reading;
  }
}

/** The lists that clients see another of; all of them where it is not known what they saw before. */
export function differing(before: ServerCatalog | null, { lists }: ServerCatalog): readonly ListKind[] {
  if (before === null) return LIST_KINDS;
  return LIST_KINDS.filter((kind) => {
    const [were, are] = [before.lists[kind].items, lists[kind].items];
    return were.length !== are.length || are.some(({ bytes }, i) => !bytes.equals(were[i]!.bytes));
  });
}
