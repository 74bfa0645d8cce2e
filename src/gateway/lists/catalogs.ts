import { Catalog, versionOf } from '../../catalog/catalog.ts';
import type { CatalogMember } from '../../catalog/catalog-member.ts';
import type { CursorCodec, CursorWriter } from '../../catalog/cursor.ts';
import { isLoginCatalog } from '../../catalog/login-catalog.ts';
import { type ClientProfile, callerKey, type Principal } from '../../model/client-profile.ts';
import type { Server } from '../../model/server.ts';
import type { ListKind } from '../../model/server-catalog.ts';
import { listIsStale } from '../../protocol/list-freshness.ts';
import type { CommonParts } from '../common-parts.ts';
import { isStarted } from '../known-servers.ts';
import { sees } from '../policy/access.ts';
import { seesLikeAll } from '../policy/cache-scope.ts';

interface CatalogsDeps extends CommonParts {
  readonly cursors: CursorCodec;
}

/** How long a replaced catalog can still be paged through, and how many are kept for that at most. */
const KEEP_MS = 300_000;
const KEEP = 64;
const SWEEP = 128;
/** How long a list waits for servers whose lists have expired. */
const RELIST_WAIT_MS = 1_000;

/** Clients with catalogs of their own, because their processes list something else; beyond that the oldest is dropped. */
const MAX_DIVERGENT = 4_096;

interface Current {
  readonly kind: string;
  readonly principal: Principal;
  readonly generation: number;
  readonly servers: readonly Server[];
  readonly catalog: Catalog;
}

interface CachedCatalog {
  readonly catalog: Catalog;
  lastUsed: number;
}

/**
 * The aggregate's catalog for each caller. Every call needs it, so an unchanged one costs two map look-ups, whatever the number
 * of servers; callers of one group share a catalog. A replaced catalog is kept for a while for clients that are paging through
 * it, only if it has more than one page.
 */
export class Catalogs {
  readonly #deps: CatalogsDeps;
  /** By the principal's object, then the kind of client: a reload creates new principals. */
  readonly #current = new WeakMap<Principal, Map<string, Current>>();
  /** By version, referenced weakly. */
  readonly #merged = new Map<string, WeakRef<Catalog>>();
  /** Catalogs with an issued cursor, by version; most recently used last. */
  readonly #kept = new Map<string, CachedCatalog>();
  readonly #cursors: CursorWriter = {
    write: (content) => {
      const catalog = this.#merged.get(content.version)?.deref();
      if (catalog !== undefined) this.#keep(catalog);
      return this.#deps.cursors.write(content);
    },
  };
  /** Until when lists wait for a server's first listing, by server and kind of client, or principal: once, not at every list. */
  readonly #waits = new Map<string, number>();
  #waitsFor: readonly Server[] | null = null;
  /** The sessions that have servers of their own, among the servers in `#ownOf`. */
  #own: ReadonlySet<string> = new Set();
  #ownOf: readonly Server[] | null = null;
  /** Catalogs of clients whose process lists something else, by the key of its connection; null until computed. */
  readonly #divergent = new Map<string, Current | null>();
  #generation = 0;
  /** The size of `#merged` at which unreferenced catalogs are removed. */
  #sweepAt = SWEEP;

  constructor(deps: CatalogsDeps) {
    this.#deps = deps;
  }

  /** The catalog of some server changed. */
  invalidate(): void {
    this.#generation++;
  }

  /** The process of this connection lists something else than before, or than a fresh process. */
  setDivergent(key: string): void {
    this.#divergent.delete(key);
    this.#divergent.set(key, null);
    if (this.#divergent.size > MAX_DIVERGENT) this.#divergent.delete(this.#divergent.keys().next().value!);
  }

  forgetSession(sessionId: string): void {
    this.#divergent.delete(sessionId);
  }

  /** The catalog of what is known now; never waits. */
  of(client: ClientProfile): Catalog {
    const { principal } = client;
    const kind = this.#kindOf(client);
    const divergentKey = this.#divergent.size === 0 ? null : this.#divergentKeyOf(client);
    const known = divergentKey === null ? this.#current.get(principal)?.get(kind) : this.#divergent.get(divergentKey);
    const servers = this.#deps.upstreams.servers();
    if (known?.generation === this.#generation && known.servers === servers) {
      const theirs = known.kind === kind && known.principal === principal;
      if (theirs && (known.catalog.complete || !this.#learnt(known.catalog, client))) return known.catalog;
    }
    const catalog = this.#merge(servers, client);
    // A client that pages through the old catalog may continue for a while from now.
    if (known != null && known.catalog !== catalog && this.#kept.has(known.catalog.version)) this.#keep(known.catalog);
    const current = { kind, principal, generation: this.#generation, servers, catalog };
    if (divergentKey === null) this.#ofKind(principal).set(kind, current);
    else this.#divergent.set(divergentKey, current);
    return catalog;
  }

  #ofKind(principal: Principal): Map<string, Current> {
    let byKind = this.#current.get(principal);
    if (byKind === undefined) this.#current.set(principal, (byKind = new Map()));
    if (byKind.size >= KEEP) byKind.clear();
    return byKind;
  }

  /** The key of the client's connection if its process lists something else; null otherwise. */
  #divergentKeyOf(client: ClientProfile): string | null {
    const own = callerKey(client, 'session');
    if (this.#divergent.has(own)) return own;
    const principals = callerKey(client, 'principal');
    return this.#divergent.has(principals) ? principals : null;
  }

  /**
   * Like `of`, after at most `waitMs` for all servers together that were never listed. A server that was listed only for other
   * kinds of client is listed for this one in the background, and the answer shows the lists of the others. A server delays
   * lists only in the first `waitMs` after the first request for it, and one that is not up only in the first `waitMs` of its
   * first start. `only`: the one server to list; null for all.
   */
  async ready(client: ClientProfile, waitMs: number, only: string | null = null): Promise<Catalog> {
    const catalog = this.of(client);
    const { upstreams } = this.#deps;
    const waiting: Promise<unknown>[] = [];
    for (const { server, catalog: shown } of catalog.members) {
      if (only !== null && server !== only) continue;
      const login = shown !== null && isLoginCatalog(shown);
      if (shown !== null && !login && upstreams.knownCatalog(server, client) !== null) continue;
      const left = shown === null || login ? this.#waitLeft(server, client, waitMs, login) : 0;
      // Other nodes may have its catalog: they are asked during the first wait.
      if (login && left <= 0) continue;
      const listed = upstreams.catalog(server, client, login ? 0 : left, true);
      if (left > 0) waiting.push(listed);
    }
    if (waiting.length === 0) return catalog;
    await Promise.all(waiting);
    return this.of(client);
  }

  /**
   * Like `ready`, for a list that is about to be shown: servers whose list has expired are listed again (C7: on request, never
   * by itself) and waited for up to `RELIST_WAIT_MS`; after that the stale list is shown.
   */
  async fresh(client: ClientProfile, kind: ListKind, waitMs: number): Promise<Catalog> {
    const catalog = await this.ready(client, waitMs);
    const { upstreams, clock } = this.#deps;
    const wall = clock.wall();
    const relisting: Promise<unknown>[] = [];
    for (const { server, catalog: known } of catalog.members) {
      if (known === null || !listIsStale(known, kind, wall) || !isStarted(upstreams, server, client)) continue;
      if (upstreams.knownCatalog(server, client) === null) continue;
      // A list without a time to live is refreshed in the background.
      const patience = known.lists[kind].ttlMs > 0 ? Math.min(waitMs, RELIST_WAIT_MS) : 0;
      const relisted = upstreams.catalog(server, client, patience);
      if (patience > 0) relisting.push(relisted);
    }
    if (relisting.length === 0) return catalog;
    await Promise.all(relisting);
    // Even an equal listing starts a new lifetime.
    if (catalog.members.some(({ server, catalog: known }) => upstreams.knownCatalog(server, client, true) !== known)) {
      this.invalidate();
    }
    return this.of(client);
  }

  /** The catalog of a cursor; null if it is gone or belongs to another caller group. */
  version(version: string, client: ClientProfile): Catalog | null {
    const current = this.of(client);
    if (current.version === version) return current;
    const kept = this.#kept.get(version);
    if (kept === undefined || kept.catalog.callerGroup !== this.#callerGroupOf(client)) return null;
    if (this.#deps.clock.now() - kept.lastUsed > KEEP_MS) return null;
    return kept.catalog;
  }

  #merge(servers: readonly Server[], client: ClientProfile): Catalog {
    const { upstreams, policies, serverInfo } = this.#deps;
    const members: CatalogMember[] = [];
    for (const server of servers) {
      if (!server.enabled || !sees(client.principal, server.name)) continue;
      if (server.onlyFor !== undefined && server.onlyFor !== client.sessionId) continue;
      const catalog = upstreams.knownCatalog(server.name, client, true);
      const ofGateway = catalog !== null && isLoginCatalog(catalog);
      members.push({ server: server.name, lists: ofGateway ? null : policies.listsOf(server.name), catalog });
    }
    const callerGroup = this.#callerGroupOf(client);
    const bridged = !servers.some(({ name }) => name === 'mcp');
    const merged = this.#merged.get(versionOf(members, { callerGroup, bridged }))?.deref();
    // A catalog of the same version may have been listed again: then its lifetime starts again.
    if (merged !== undefined && sameListing(merged, members)) return merged;
    const unfiltered = seesLikeAll(client.principal);
    const catalog = new Catalog(members, { callerGroup, unfiltered, bridged, cursors: this.#cursors, serverInfo });
    this.#note(catalog);
    return catalog;
  }

  #note(catalog: Catalog): void {
    this.#merged.set(catalog.version, new WeakRef(catalog));
    if (this.#merged.size < this.#sweepAt) return;
    for (const [version, merged] of this.#merged) if (merged.deref() === undefined) this.#merged.delete(version);
    this.#sweepAt = Math.max(SWEEP, 2 * this.#merged.size);
  }

  #waitLeft(server: string, client: ClientProfile, waitMs: number, login: boolean): number {
    const servers = this.#deps.upstreams.servers();
    if (this.#waitsFor !== servers || this.#waits.size > 10_000) {
      this.#waits.clear();
      this.#waitsFor = servers;
    }
    const own = servers.find(({ name }) => name === server)?.callerSeparation?.credentials === true;
    const listed = `${server} ${this.#kindOf(client)} ${own ? client.principal.id : ''}`;
    const key = login ? `login ${listed}` : listed;
    // After the login, the server's first listing is waited for again.
    if (login) this.#waits.delete(listed);
    const now = this.#deps.clock.now();
    const until = this.#waits.get(key);
    if (until !== undefined) return Math.max(0, until - now);
    this.#waits.set(key, now + waitMs);
    return waitMs;
  }

  #keep(catalog: Catalog): void {
    this.#kept.delete(catalog.version);
    this.#kept.set(catalog.version, { catalog, lastUsed: this.#deps.clock.now() });
    if (this.#kept.size > KEEP) this.#kept.delete(this.#kept.keys().next().value!);
  }

  /** A server may offer different lists by era, capabilities and forwarded headers; some servers belong to one session. */
  #kindOf(client: ClientProfile): string {
    const { sessionId, fingerprint, forwarded } = client;
    const kind = forwarded === undefined ? fingerprint : `${fingerprint} ${JSON.stringify(forwarded)}`;
    if (sessionId === null) return kind;
    const from = this.#deps.upstreams.listSourceKey?.(client) ?? '';
    return this.#ownSessions().has(sessionId) ? `session ${sessionId} ${kind}${from}` : `stateful ${kind}${from}`;
  }

  #ownSessions(): ReadonlySet<string> {
    const servers = this.#deps.upstreams.servers();
    if (this.#ownOf !== servers) {
      this.#ownOf = servers;
      this.#own = new Set(servers.flatMap(({ onlyFor }) => onlyFor ?? []));
    }
    return this.#own;
  }

  /** Callers of one group see the same: the same servers, listed for the same capabilities. */
  #callerGroupOf(client: ClientProfile): string {
    const { servers } = client.principal;
    const scope = servers === null ? '*' : JSON.stringify([...servers].sort());
    // Lists are shared only within one principal (C1).
    return `${this.#kindOf(client)} ${client.principal.id} ${scope}`;
  }

  #learnt(catalog: Catalog, client: ClientProfile): boolean {
    return catalog.members.some(
      (member) => member.catalog === null && this.#deps.upstreams.knownCatalog(member.server, client, true) !== null,
    );
  }
}

function sameListing(catalog: Catalog, members: readonly CatalogMember[]): boolean {
  return catalog.members.every((member, i) => member.catalog?.listedAt === members[i]?.catalog?.listedAt);
}
