import { kindOf } from '../../model/caller-partition.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { withTimeout } from '../../model/clock.ts';
import type { Era } from '../../model/message.ts';
import type { Server } from '../../model/server.ts';
import { type InvalidItem, type ServerCatalog, toolsByName } from '../../model/server-catalog.ts';
import { messageOf } from '../../model/thrown.ts';
import { canonical } from '../../protocol/canonical.ts';
import { isStale } from '../../protocol/list-freshness.ts';
import type { Connection } from '../connection/connection.ts';
import { placeholderClient } from '../connection/session-key.ts';
import type { ClientConnections } from '../pool/client-connections.ts';
import type { ServerContext } from '../server-context.ts';
import type { Supervisor } from '../supervision/supervisor.ts';
import { differingLists, listServer } from './listing.ts';
import { type CatalogEntry, newCatalogEntry, OwnLists } from './own-lists.ts';

/** Pause after a failed listing (seeds F7). */
const FAILED_LIST_PAUSE_MS = 5_000;
/** Longest delay of a background retry after a failed listing, as a multiple of the pause; the delay doubles up to it. */
const MAX_PAUSES = 64;
const MAX_COMPLAINTS = 10;
/** Maximum of invalid items reported per run of a server. */
const MAX_INVALID = 100;
/** Attempts of one listing if the gateway itself closes each connection meanwhile. */
const MAX_CONNECTIONS = 3;
/** Maximum of client kinds remembered per server and era; dropped ones are listed again when they return. */
const MAX_ENTRIES = 64;

/**
 * The catalogs of one server: one per era and capability fingerprint. Remembered ones of an earlier process are served until
 * the server was listed again. Listing is single flight per kind. For a server with a process per session these are the
 * catalogs of a fresh process; those of sessions that differ are in `own`.
 */
export class ServerCatalogs {
  readonly #context: ServerContext;
  readonly #supervisor: Supervisor;
  readonly #connections: ClientConnections;
  readonly #entries: Readonly<Record<Era, Map<string, CatalogEntry>>> = { stateful: new Map(), stateless: new Map() };
  /** Catalogs of single processes. */
  readonly own: OwnLists;
  #latest: CatalogEntry | null = null;
  #run = 1;
  /** Invalid items that were reported in this run, as text. */
  readonly #reported = new Set<string>();

  constructor(
    context: ServerContext,
    supervisor: Supervisor,
    connections: ClientConnections,
    remembered: Iterable<RememberedCatalog>,
  ) {
    this.#context = context;
    this.#supervisor = supervisor;
    this.#connections = connections;
    this.own = new OwnLists(context, connections.pool, ({ profile, era }) => this.#entry(profile, era));
    for (const { profile, catalog } of remembered) {
      const entry = this.#entry(profile, catalog.handshake.era);
      entry.catalog = catalog;
      if (this.#latest === null || catalog.listedAt > this.#latest.catalog!.listedAt) this.#latest = entry;
    }
  }

  /** The catalog that was listed last, for any kind of client. */
  get latest(): ServerCatalog | null {
    return this.#latest?.catalog ?? null;
  }

  /** Whether `latest` was not listed in this process. */
  get latestIsRemembered(): boolean {
    return this.#latest !== null && this.#latest.listedIn === 0;
  }

  /** The profile and era of a start without a client. */
  get latestKind(): { readonly profile: ClientProfile; readonly era: Era } | null {
    return this.#latest;
  }

  known(fingerprint: string, era: Era): ServerCatalog | null {
    return this.#entries[era].get(fingerprint)?.catalog ?? null;
  }

  /** The catalog that was listed last, for any kind of client, preferably of this era. */
  ofOthers(era: Era): ServerCatalog | null {
    let latest: ServerCatalog | null = null;
    for (const { catalog } of this.#entries[era].values()) {
      if (catalog !== null && (latest === null || catalog.listedAt > latest.listedAt)) latest = catalog;
    }
    return latest ?? this.latest;
  }

  *#all(): Iterable<CatalogEntry> {
    yield* this.#entries.stateful.values();
    yield* this.#entries.stateless.values();
  }

  tool(fingerprint: string, era: Era, name: string, own: ServerCatalog | null = null): Buffer | null {
    const catalog = own ?? this.known(fingerprint, era) ?? this.ofOthers(era);
    return catalog === null ? null : (toolsByName(catalog).get(name)?.bytes ?? null);
  }

  /** The server was restarted: known catalogs may be out of date. */
  restarted(): void {
    this.#run++;
    this.#reported.clear();
    // Failures of the earlier run do not count.
    for (const entry of this.#all()) entry.pausedUntil = 0;
  }

  /** The known catalog. Waits for the first listing, and for that of a catalog whose time to live is over. */
  async get(profile: ClientProfile, era: Era, waitMs: number): Promise<ServerCatalog | null> {
    // Listing for a kind of client may start a process, and clients can name any number of kinds.
    if (this.#isFull(profile, era)) return this.ofOthers(era);
    const entry = this.#entry(profile, era);
    const upToDate = entry.listedIn === this.#run;
    const known = entry.catalog;
    if (known !== null && upToDate && !isStale(known, this.#context.deps.clock.wall())) return known;
    const mayList = entry.listing === null && this.#context.deps.clock.now() >= entry.pausedUntil;
    const listing = mayList ? this.#refresh(entry, null) : entry.listing;
    if (listing === null || waitMs <= 0 || (known !== null && !upToDate)) return known;
    await withTimeout(this.#context.deps.clock, waitMs, listing, () => {});
    return entry.catalog;
  }

  /** Cancels all planned background listings. */
  close(): void {
    for (const entry of this.own.values()) entry.disarm();
    for (const entry of this.#all()) entry.disarm();
  }

  /**
   * The connection now serves this kind of client: lists for this kind, unless that was done in this run, and the lists of the
   * client's own process, unless they were just read.
   */
  onConnectionAvailable(profile: ClientProfile, connection: Connection): void {
    const entry = this.#entry(profile, connection.era);
    if (entry.listedIn !== this.#run && entry.listing === null) void this.#relist(entry, connection);
    const own = this.own.add(connection);
    if (own !== null) void this.#relist(own, connection);
  }

  /**
   * Lists again what this connection serves: on a stateless one every kind of client that was listed in this run, else the kind
   * that the connection presents.
   */
  async relistOver(connection: Connection): Promise<void> {
    if (connection.era === 'stateful') return this.#relist(this.#entryFor(connection), connection);
    const listed = [...this.#entries[connection.era].values()].filter(({ listedIn }) => listedIn === this.#run);
    await Promise.all(listed.map((entry) => this.#relist(entry, connection)));
  }

  /** Lists for this kind of client over this connection; does not reuse a listing that began earlier. */
  async relist(profile: ClientProfile, connection: Connection): Promise<void> {
    const entry = this.#entry(profile, connection.era);
    if (entry.listing !== null) await entry.listing;
    await (entry.listing ?? this.#relist(entry, connection));
  }

  /** Lists again, over a suitable connection, for every kind of client that was listed in this run or is being listed. */
  async refreshListed(era: Era): Promise<void> {
    const again = async (entry: CatalogEntry): Promise<void> => {
      if (entry.listing === null) return this.#relist(entry, null);
      entry.relistNeeded = true;
      await entry.listing;
      await entry.listing;
    };
    const listed = [...this.#entries[era].values()].filter((one) => one.listedIn === this.#run || one.listing !== null);
    await Promise.all(listed.map(again));
  }

  /** Lists now, over a suitable connection. Never rejects; later callers join it. */
  refresh(profile: ClientProfile, era: Era): Promise<void> {
    if (this.#isFull(profile, era)) return Promise.resolve();
    return this.#refresh(this.#entry(profile, era), null);
  }

  /** The current listing of what this kind of client sees on this connection; null for none. */
  listing(profile: ClientProfile, connection: Connection): Promise<void> | null {
    return this.#entryFor(connection, profile).listing;
  }

  /** A new connection: lists over it, unless the first listing of this run is in progress and finds the same. */
  renewed(connection: Connection): Promise<void> {
    const own = this.own.of(connection);
    const entry = this.#entry(connection.profile, connection.era);
    if (own !== null) {
      if (own.listing === null && entry.listedOver !== connection) return this.#relist(own, connection);
      return own.listing ?? entry.listing ?? Promise.resolve();
    }
    return entry.listing !== null && entry.listedIn !== this.#run ? entry.listing : this.#relist(entry, connection);
  }

  /** Lists as soon as the pause after a failure is over (F7). */
  #relist(entry: CatalogEntry, connection: Connection | null): Promise<void> {
    const leftMs = entry.pausedUntil - this.#context.deps.clock.now();
    if (leftMs <= 0 || entry.listing !== null) return this.#refresh(entry, connection);
    entry.disarm();
    entry.disarm = this.#context.deps.clock.after(leftMs, () => {
      if (connection?.ready !== false && entry.listing === null) void this.#refresh(entry, connection);
    });
    return Promise.resolve();
  }

  #refresh(entry: CatalogEntry, connection: Connection | null): Promise<void> {
    if (entry.listing !== null) {
      entry.relistNeeded ||= connection !== null;
      return entry.listing;
    }
    entry.listing = this.#list(entry, connection).finally(() => {
      entry.listing = null;
      if (!entry.relistNeeded) return;
      entry.relistNeeded = false;
      void this.#refresh(entry, connection?.ready === true ? connection : null);
    });
    return entry.listing;
  }

  async #list(entry: CatalogEntry, given: Connection | null, left = MAX_CONNECTIONS): Promise<void> {
    const { logger, server } = this.#context;
    const { clock, inspect, knownCatalogs } = this.#context.deps;
    let connection: Connection | null = null;
    entry.disarm();
    try {
      if (entry.own?.ready === false) return;
      entry.listedOver = given;
      connection = entry.own ?? given;
      if (connection?.ready !== true) {
        await this.#supervisor.readyFor(entry.profile, entry.era);
        connection = await this.#connections.forListing(entry.profile, entry.era);
      }
      entry.listedOver = connection;
      const run = this.#run;
      const before = entry.catalog ?? (entry.own === null ? null : this.#entry(entry.profile, entry.era).catalog);
      const wall = clock.wall();
      const over = connection;
      const { catalog, complaints, invalid, refused } = await over.during(() =>
        listServer(over, server.name, entry.profile, server.timeoutMs, before, wall),
      );
      const taken = (): void => {
        entry.pausedUntil = refused ? clock.now() + FAILED_LIST_PAUSE_MS : 0;
        entry.failures = 0;
        entry.listedIn = run;
      };
      for (const complaint of complaints.slice(0, MAX_COMPLAINTS)) logger.warn('list_odd', { complaint });
      this.#reportInvalid(invalid);
      if (entry.own !== null) {
        taken();
        const doubtful = await this.own.keep(entry, catalog);
        if (doubtful !== null) void this.#refresh(doubtful, null);
        return;
      }
      const inspected = inspect?.(catalog);
      if (inspected != null) await inspected;
      const unchanged = before !== null && before.digest === catalog.digest && entry.listedIn !== 0;
      // Unchanged stateless lists are replaced too, because their time to live starts again.
      entry.catalog = unchanged && entry.era === 'stateful' ? before : catalog;
      taken();
      this.#latest = entry;
      if (!unchanged && server.temporary !== true)
        knownCatalogs.save(identityOf(server, entry.profile, entry.era), catalog);
      if (!unchanged) this.own.split(entry, before);
      this.#context.events.listed(entry.profile.fingerprint, unchanged ? [] : differingLists(before, catalog), null);
    } catch (error) {
      // The connection may have belonged to a client whose session ended: that says nothing about the server.
      if (entry.own?.live === false) return;
      const closedByUs = connection !== null && !connection.live && connection.closedReason === null;
      if (closedByUs && this.#supervisor.up) return left > 1 ? this.#list(entry, null, left - 1) : undefined;
      entry.pausedUntil = clock.now() + FAILED_LIST_PAUSE_MS;
      entry.failures++;
      logger.warn('list_failed', { error: messageOf(error) });
      const over = connection;
      if (over?.ready !== true) return;
      // If the connection has ended, the next one lists.
      const pauseMs = FAILED_LIST_PAUSE_MS * Math.min(2 ** (entry.failures - 1), MAX_PAUSES);
      entry.disarm = clock.after(pauseMs, () => {
        if (over.ready && entry.failures > 0 && entry.listing === null) void this.#refresh(entry, over);
      });
    }
  }

  #reportInvalid(invalid: readonly InvalidItem[]): void {
    for (const item of invalid) {
      const text = JSON.stringify(item);
      if (this.#reported.size === MAX_INVALID || this.#reported.has(text)) continue;
      this.#reported.add(text);
      const { deps, logger, name } = this.#context;
      logger.warn('list_item_invalid', { ...item });
      const [itemName, reason] = [this.#context.redacted(item.item), this.#context.redacted(item.reason)];
      deps.listener?.listItemInvalid(name, { ...item, item: itemName, reason });
    }
  }

  #entryFor(connection: Connection, profile: ClientProfile = connection.profile): CatalogEntry {
    return this.own.of(connection) ?? this.#entry(profile, connection.era);
  }

  /** Whether this kind of client is new, and all remembered kinds are being listed. */
  #isFull({ fingerprint }: ClientProfile, era: Era): boolean {
    const entries = this.#entries[era];
    return entries.size >= MAX_ENTRIES && !entries.has(fingerprint) && this.#idle(entries) === undefined;
  }

  #idle(entries: ReadonlyMap<string, CatalogEntry>): CatalogEntry | undefined {
    return entries.values().find((entry) => entry !== this.#latest && entry.listing === null);
  }

  #entry(profile: ClientProfile, era: Era): CatalogEntry {
    const entries = this.#entries[era];
    const known = entries.get(profile.fingerprint);
    if (known !== undefined) return known;
    if (entries.size >= MAX_ENTRIES) {
      const given = this.#idle(entries);
      given?.disarm();
      if (given !== undefined) entries.delete(given.profile.fingerprint);
    }
    const entry = newCatalogEntry(profile, era, null);
    entries.set(profile.fingerprint, entry);
    return entry;
  }
}

export interface RememberedCatalog {
  readonly profile: ClientProfile;
  readonly catalog: ServerCatalog;
}

/** Connection digest, era and capabilities; a start without a client presents these capabilities. */
function identityOf(server: Server, profile: ClientProfile, era: Era): string {
  return `${server.connectionDigest} ${era} ${canonical(profile.capabilities)}`;
}

/** The remembered catalogs that fit the server's current definition. */
export function rememberedCatalogs(
  server: Server,
  known: readonly (ServerCatalog & { readonly identity: string })[],
  clientInfo: string | null,
): readonly RememberedCatalog[] {
  return known.flatMap((catalog) => {
    const prefix = `${server.connectionDigest} ${catalog.handshake.era} `;
    if (!catalog.identity.startsWith(prefix)) return [];
    const profile = placeholderClient(clientInfo, catalog.identity.slice(prefix.length));
    const { caller } = server;
    const seen = caller === undefined ? profile : { ...profile, fingerprint: kindOf(profile, caller.digest) };
    return [{ profile: seen, catalog }];
  });
}
