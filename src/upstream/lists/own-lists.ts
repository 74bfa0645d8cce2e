import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { Connection } from '../connection/connection.ts';
import { isExclusive } from '../connection/session-key.ts';
import type { SessionPool } from '../pool/session-pool.ts';
import type { ServerContext } from '../server-context.ts';
import { differingLists } from './listing.ts';

/** The known lists of a server: those for one kind of client, or those of one client's own process. */
export interface CatalogEntry {
  readonly era: Era;
  readonly profile: ClientProfile;
  /** The process whose lists these are; null for the lists of a fresh process or of a shared server. */
  readonly own: Connection | null;
  /** The catalog; for an own process, null if it equals that of a fresh process. */
  catalog: ServerCatalog | null;
  /** The connection of the last or current listing. */
  listedOver: Connection | null;
  /** The run of the server in which it was last listed; 0 for a remembered catalog. */
  listedIn: number;
  listing: Promise<void> | null;
  /** The server changed during the listing: list again. */
  relistNeeded: boolean;
  /** Monotonic time before which it is not listed again. */
  pausedUntil: number;
  /** Consecutive failures. */
  failures: number;
  /** Cancels the next attempt. */
  disarm: () => void;
}

export function newCatalogEntry(profile: ClientProfile, era: Era, own: Connection | null): CatalogEntry {
  const state = { listedIn: 0, listing: null, relistNeeded: false, pausedUntil: 0, failures: 0, disarm: () => {} };
  return { era, profile, own, catalog: null, listedOver: null, ...state };
}

/** Minimum time between two listings of a fresh process because of differing lists of a session's process. */
const DOUBT_EVERY_MS = 5_000;

/** The catalogs of processes that serve one session or principal, where they differ from that of a fresh process. */
export class OwnLists {
  readonly #context: ServerContext;
  readonly #pool: SessionPool;
  readonly #common: (own: CatalogEntry) => CatalogEntry;
  readonly #entries = new Map<Connection, CatalogEntry>();
  #doubtAfter = 0;
  /** How many differ; read with every call. */
  #differing = 0;

  /** `common`: returns the entry of the same kind of client for a fresh process. */
  constructor(context: ServerContext, pool: SessionPool, common: (own: CatalogEntry) => CatalogEntry) {
    this.#context = context;
    this.#pool = pool;
    this.#common = common;
  }

  /** Whether any process has a catalog of its own. */
  get differ(): boolean {
    return this.#differing > 0;
  }

  of(connection: Connection): CatalogEntry | null {
    return this.#entries.get(connection) ?? null;
  }

  values(): Iterable<CatalogEntry> {
    return this.#entries.values();
  }

  /** Catalogs by the session key of their connection. */
  *byKey(): Iterable<readonly [string, ServerCatalog]> {
    for (const { own, catalog } of this.values()) if (own?.live && catalog !== null) yield [own.key, catalog];
  }

  /** The connection now serves a client. Returns the entry to list; null if it was just listed or is not an own process. */
  add(connection: Connection): CatalogEntry | null {
    if (!this.#isOwn(connection) || this.#entries.has(connection)) return null;
    // Connections that the pool closed are removed without a notification.
    for (const other of this.#entries.keys()) if (!other.live) this.#drop(other);
    const own = newCatalogEntry(connection.profile, connection.era, connection);
    const common = this.#common(own);
    // More processes do not cause more listings of a server whose listings fail (F7).
    own.pausedUntil = Math.max(common.pausedUntil, ...this.#entries.values().map(({ pausedUntil }) => pausedUntil));
    this.#entries.set(connection, own);
    return common.listedOver === connection ? null : own;
  }

  /** The connection ended: until its client has another one, the client sees the catalog of a fresh process. */
  ended(connection: Connection): void {
    const own = this.#drop(connection);
    if (own?.catalog != null) this.#notifyChanged(own, own.catalog, this.#common(own).catalog);
  }

  /** Stores what the process listed. Resolves with the common entry if that should be listed again, else with null. */
  async keep(own: CatalogEntry, listed: ServerCatalog): Promise<CatalogEntry | null> {
    const { digest } = listed;
    const isCommon = digest === this.#common(own).catalog?.digest;
    const equal = this.#entries.values().find(({ catalog }) => catalog?.digest === digest)?.catalog;
    const kept = equal ?? { ...listed, own: true as const };
    if (!isCommon && equal == null) await this.#context.deps.inspect?.(kept);
    if (this.#entries.get(own.own!) !== own) return null;
    const common = this.#common(own);
    const before = own.catalog ?? common.catalog;
    this.#set(own, digest === common.catalog?.digest ? null : kept);
    const after = own.catalog ?? common.catalog;
    if (after === before) return null;
    this.#notifyChanged(own, before, after);
    return own.catalog !== null && this.#isDoubtful(common) ? common : null;
  }

  /** The catalog of a fresh process changed: clients with a process of their own keep seeing what that process listed. */
  split(common: CatalogEntry, before: ServerCatalog | null): void {
    const kept = before === null ? null : { ...before, own: true as const };
    for (const own of this.#entries.values()) {
      if (this.#common(own) !== common || own.own === common.listedOver) continue;
      if (own.catalog === null && kept !== null) this.#set(own, kept);
      else if (own.catalog?.digest === common.catalog?.digest) this.#set(own, null);
      else continue;
      this.#notifyChanged(own, null, null);
    }
  }

  /** Whether a fresh process should be listed again, because it may have changed as the client's process did. */
  #isDoubtful(common: CatalogEntry): boolean {
    const { clock } = this.#context.deps;
    if (common.listing !== null || clock.now() < this.#doubtAfter || this.#pool.capacity !== 'free') return false;
    this.#doubtAfter = clock.now() + DOUBT_EVERY_MS;
    return true;
  }

  /** Whether it is a process for one session or principal, whose lists no other client sees. */
  #isOwn({ era, tenancy }: Connection): boolean {
    return this.#context.ownProcess && era === 'stateful' && isExclusive(tenancy);
  }

  #set(own: CatalogEntry, catalog: ServerCatalog | null): void {
    this.#differing += Number(catalog !== null) - Number(own.catalog !== null);
    own.catalog = catalog;
  }

  #drop(connection: Connection): CatalogEntry | undefined {
    const own = this.#entries.get(connection);
    own?.disarm();
    this.#entries.delete(connection);
    if (own?.catalog != null) this.#differing--;
    return own;
  }

  #notifyChanged({ profile, own }: CatalogEntry, before: ServerCatalog | null, after: ServerCatalog | null): void {
    this.#context.events.listed(profile.fingerprint, after === null ? [] : differingLists(before, after), own!.key);
  }
}
