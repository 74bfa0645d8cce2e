import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { Connection } from '../connection/connection.ts';
import { isExclusive } from '../connection/session-key.ts';
import type { SessionPool } from '../pool/session-pool.ts';
import type { ServerContext } from '../server-context.ts';
import { differingLists } from './listing.ts';

/** What is known of a server's lists: of those for one kind of client, or of those that the process of one client has. */
export interface CatalogEntry {
  readonly era: Era;
  readonly profile: ClientProfile;
  /** The process whose lists these are; null where they are those of a fresh process, or of a server that all share. */
  readonly own: Connection | null;
  /** Of a process that lists what a fresh one does: null. */
  catalog: ServerCatalog | null;
  /** The connection that the last listing was made over, or is being made. */
  over: Connection | null;
  /** The run of the server in which it was last listed; 0 for a remembered catalogue. */
  listedIn: number;
  listing: Promise<void> | null;
  /** The server changed while it was being listed. */
  again: boolean;
  /** Monotonic; the list is not asked for before this. */
  pausedUntil: number;
  /** In a row. */
  failures: number;
  /** Cancels the next attempt. */
  disarm: () => void;
}

export function newCatalogEntry(profile: ClientProfile, era: Era, own: Connection | null): CatalogEntry {
  const state = { listedIn: 0, listing: null, again: false, pausedUntil: 0, failures: 0, disarm: () => {} };
  return { era, profile, own, catalog: null, over: null, ...state };
}

/** Where the processes of sessions list something else, a fresh one is listed again at most once in so long. */
const DOUBT_EVERY_MS = 5_000;

/** What the processes of single sessions and principals list, where that differs from a fresh process. */
export class OwnLists {
  readonly #context: ServerContext;
  readonly #pool: SessionPool;
  readonly #common: (own: CatalogEntry) => CatalogEntry;
  readonly #entries = new Map<Connection, CatalogEntry>();
  #doubtAfter = 0;
  /** How many differ: asked with every call. */
  #differing = 0;

  /** `common`: the entry of the same kind of client with the lists of a fresh process. */
  constructor(context: ServerContext, pool: SessionPool, common: (own: CatalogEntry) => CatalogEntry) {
    this.#context = context;
    this.#pool = pool;
    this.#common = common;
  }

  /** Whether any process lists something of its own. */
  get differ(): boolean {
    return this.#differing > 0;
  }

  of(connection: Connection): CatalogEntry | null {
    return this.#entries.get(connection) ?? null;
  }

  values(): Iterable<CatalogEntry> {
    return this.#entries.values();
  }

  /** By the key of their connection. */
  *byKey(): Iterable<readonly [string, ServerCatalog]> {
    for (const { own, catalog } of this.values()) if (own?.live && catalog !== null) yield [own.key, catalog];
  }

  /** The connection serves a client from now on. Its entry, where it is to be listed; null where it just was, or serves no single client. */
  add(connection: Connection): CatalogEntry | null {
    if (!this.#isOwn(connection) || this.#entries.has(connection)) return null;
    // No client is notified of what the pool closed by itself.
    for (const other of this.#entries.keys()) if (!other.live) this.#drop(other);
    const own = newCatalogEntry(connection.profile, connection.era, connection);
    const common = this.#common(own);
    // A server whose lists fail is not asked more often because it has more processes (F7).
    own.pausedUntil = Math.max(common.pausedUntil, ...this.#entries.values().map(({ pausedUntil }) => pausedUntil));
    this.#entries.set(connection, own);
    return common.over === connection ? null : own;
  }

  /** Its client may have another one: until then it is shown what a fresh process lists. */
  ended(connection: Connection): void {
    const own = this.#drop(connection);
    if (own?.catalog != null) this.#tell(own, own.catalog, this.#common(own).catalog);
  }

  /** Takes what the process has listed. Resolves with the common entry where that should be listed again, else with null. */
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
    this.#tell(own, before, after);
    return own.catalog !== null && this.#isDoubtful(common) ? common : null;
  }

  /** A fresh process lists something else now: clients that have a process go on being shown what theirs lists. */
  split(common: CatalogEntry, before: ServerCatalog | null): void {
    const kept = before === null ? null : { ...before, own: true as const };
    for (const own of this.#entries.values()) {
      if (this.#common(own) !== common || own.own === common.over) continue;
      if (own.catalog === null && kept !== null) this.#set(own, kept);
      else if (own.catalog?.digest === common.catalog?.digest) this.#set(own, null);
      else continue;
      this.#tell(own, null, null);
    }
  }

  /** A process lists something else than a fresh one did: perhaps a fresh one does so by now as well. */
  #isDoubtful(common: CatalogEntry): boolean {
    const { clock } = this.#context.deps;
    if (common.listing !== null || clock.now() < this.#doubtAfter || this.#pool.room !== 'free') return false;
    this.#doubtAfter = clock.now() + DOUBT_EVERY_MS;
    return true;
  }

  /** Whether it is a process that serves one session or principal, whose lists no other client is shown. */
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

  #tell({ profile, own }: CatalogEntry, before: ServerCatalog | null, after: ServerCatalog | null): void {
    this.#context.events.listed(profile.fingerprint, after === null ? [] : differingLists(before, after), own!.key);
  }
}
