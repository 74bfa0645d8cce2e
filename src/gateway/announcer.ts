import { Paced } from '../model/paced.ts';
import type { ListKind } from '../model/server-catalog.ts';
import { notification } from '../protocol/compose.ts';
import type { ListParts } from './list-parts.ts';
import type { Listens } from './listens.ts';
import { changedMethods, declaredMethods, type ListChange, methodsDue, type Recipient } from './lists/list-changes.ts';
import type { SeenSession } from './lists/seen-sessions.ts';
import { sees } from './policy/access.ts';

/**
 * Changes come in bursts (three lists of one server, servers starting together); clients are notified once. While thousands of
 * tools are compared for each notification, bursts are longer.
 */
const COALESCE_MS = 50;
/** For this long after a session's own connection notified it, the gateway does not repeat the notification. */
const NOTIFIED_MS = 2_000;
/** Within this all nodes have the lists that one of them had first. */
const SPREAD_MS = 10_000;

const NONE: ReadonlySet<string> = new Set();

interface AnnouncerDeps extends ListParts {
  readonly listens: Listens;
}

/**
 * Tells clients that a list of theirs has changed: each session and each listener once per notification and burst,
 * and only where the list it would get did change.
 */
export class Announcer {
  readonly #deps: AnnouncerDeps;
  readonly #changes = new Map<string, Omit<ListChange, 'kinds'> & { readonly kinds: Set<ListKind> }>();
  /** What changed so lately that other nodes may not have it yet, by server. */
  readonly #lately = new Map<string, { readonly kinds: Set<ListKind>; at: number }>();
  /** Servers whose notification is sent once more. */
  readonly #again = new Set<string>();
  readonly #flushing: Paced;
  #disarm: (() => void) | null = null;
  /** When the last of the changes that wait arrived. */
  #changedAt = 0;
  #everybody = false;
  /** By server and connection, the notifications that its clients are to have whatever changed; null for all declared. */
  readonly #renewed = new Map<string, Map<string, Set<string> | null>>();

  constructor(deps: AnnouncerDeps) {
    this.#deps = deps;
    this.#flushing = new Paced(deps.clock, () => this.#flush());
  }

  /**
   * Lists of the server are others, for clients of one fingerprint or (null) of any. The catalogues must have been invalidated
   * before.
   */
  changed(server: string, fingerprint: string | null, kinds: readonly ListKind[], key: string | null = null): void {
    const name = `${server} ${fingerprint ?? '*'} ${key ?? ''}`;
    const change = this.#changes.get(name);
    if (change === undefined) this.#changes.set(name, { server, fingerprint, key, kinds: new Set(kinds) });
    else for (const kind of kinds) change.kinds.add(kind);
    if (key === null) {
      const at = this.#deps.clock.now();
      const lately = this.#lately.get(server);
      const old = lately === undefined || at - lately.at >= SPREAD_MS ? [] : lately.kinds;
      this.#lately.set(server, { kinds: new Set([...old, ...kinds]), at });
    }
    this.#arm();
  }

  /**
   * Another node lists the server otherwise than before. A client without a session gets changes only where it listens, and
   * may have asked that node too soon: it gets the changes of a moment ago once more.
   */
  again(server: string): void {
    const changed = this.#lately.get(server);
    if (changed === undefined || this.#deps.clock.now() - changed.at >= SPREAD_MS) return;
    this.#again.add(server);
    this.#arm();
  }

  /**
   * Servers, filters or rights have changed: clients whose merged list differs are notified, and clients of the endpoint of a
   * server whose filter changed.
   */
  everything(filtered: Iterable<string>): void {
    this.#everybody = true;
    for (const server of filtered) this.changed(server, null, ['tools']);
    this.#arm();
  }

  /**
   * The server was listed again over this connection, after a break or (`methods`) because it announced changes: the clients of
   * the connection are notified once, whatever the lists are, as it is not known what they missed.
   */
  renewed(server: string, key: string, methods: readonly string[] | null = null): void {
    const keys = this.#renewed.get(server) ?? new Map<string, Set<string> | null>();
    this.#renewed.set(server, keys);
    const before = keys.get(key);
    keys.set(key, methods === null || before === null ? null : new Set([...(before ?? []), ...methods]));
    this.#arm();
  }

  /** The session's own connection notified it. */
  notified({ heard }: SeenSession, method: string): void {
    heard.set(method, this.#deps.clock.now());
  }

  /** What the session's process announced does not count any more: the process is gone, and the session sees other lists. */
  stateLost(sessionId: string): void {
    this.#deps.sessions.get(sessionId)?.heard.clear();
  }

  /** Streams are about to end: what waits is sent now. */
  drain(): void {
    if (this.#disarm === null && !this.#flushing.due) return;
    this.close();
    this.#flushing.run();
  }

  close(): void {
    this.#disarm?.();
    this.#disarm = null;
    this.#flushing.close();
  }

  #arm(): void {
    const { clock } = this.#deps;
    this.#changedAt = clock.now();
    if (this.#disarm !== null || this.#flushing.due) return;
    this.#disarm = clock.after(COALESCE_MS, () => {
      this.#disarm = null;
      this.#flushing.soon();
    });
  }

  #flush(): void {
    const changes: ListChange[] = [...this.#changes.values()];
    this.#changes.clear();
    for (const [sessionId, concerning] of this.#concerned(changes)) {
      const seen = this.#deps.sessions.get(sessionId);
      // This session has made no request since the gateway started: the last notification it got is not known.
      const methods =
        seen === null
          ? changedMethods(concerning.flatMap(({ kinds }) => [...kinds]))
          : methodsDue(seen, concerning, this.#deps.catalogs, this.#deps.upstreams);
      // No process reports what was decided here: a filter, a pin.
      const decided = changedMethods(
        concerning.filter(({ fingerprint }) => fingerprint === null).flatMap(({ kinds }) => [...kinds]),
      );
      for (const method of methods) this.#tell(sessionId, method, decided.has(method));
    }
    const renewed = new Map(this.#renewed);
    this.#renewed.clear();
    for (const [server, keys] of renewed) {
      for (const sessionId of this.#sessionsOn(server, new Set(keys.keys()))) {
        const seen = this.#deps.sessions.get(sessionId);
        for (const method of this.#renewedFor(server, keys, seen)) {
          if (!this.#isRecent(seen?.notified.get(method))) this.#tell(sessionId, method);
        }
      }
    }
    const again = [...this.#again];
    this.#again.clear();
    const now = this.#deps.clock.now();
    this.#deps.listens.announce(changes, now, (listen) => {
      const methods = [...renewed]
        .flatMap(([server, keys]) => [...this.#renewedFor(server, keys, listen)])
        .filter((method) => !this.#isRecent(listen.notified.get(method)));
      return new Set([...methods, ...again.flatMap((server) => [...this.#latelyFor(server, listen)])]);
    });
  }

  #latelyFor(server: string, { client, endpoint }: Recipient): ReadonlySet<string> {
    if (!sees(client.principal, server) || (endpoint.kind === 'server' && endpoint.server !== server)) return NONE;
    return changedMethods(this.#lately.get(server)?.kinds ?? []);
  }

  /** The notifications that are due to a client of one of these connections, which may be none of it. */
  #renewedFor(
    server: string,
    keys: ReadonlyMap<string, ReadonlySet<string> | null>,
    to: Recipient | null,
  ): ReadonlySet<string> {
    if (to === null || !sees(to.client.principal, server)) return NONE;
    if (to.endpoint.kind === 'server' && to.endpoint.server !== server) return NONE;
    const { upstreams } = this.#deps;
    const key = upstreams.sessionKey(server, to.client);
    const catalog = key !== null && keys.has(key) ? upstreams.knownCatalog(server, to.client) : null;
    if (catalog === null) return NONE;
    const declared = declaredMethods(catalog);
    return declared.intersection(keys.get(key!) ?? declared);
  }

  /** Connections of single sessions have the session's id for their key; for others all sessions are looked at. */
  #sessionsOn(server: string, keys: ReadonlySet<string>): Iterable<string> {
    const { sessions, streams } = this.#deps;
    if (keys.values().every((key) => sessions.get(key) !== null)) return keys;
    return Array.from(streams.sessionsFor(server), ({ sessionId }) => sessionId);
  }

  #isRecent(at = Number.NEGATIVE_INFINITY): boolean {
    return this.#changedAt - at < NOTIFIED_MS;
  }

  /** The sessions whose lists may be affected, each with the changes of servers it may use. */
  #concerned(changes: readonly ListChange[]): Map<string, ListChange[]> {
    const concerned = new Map<string, ListChange[]>();
    for (const change of changes) {
      for (const { sessionId } of this.#deps.streams.sessionsFor(change.server)) {
        // Of a session that was not heard of since the gateway started nothing is known but its id.
        if (change.key !== null && change.key !== sessionId && this.#deps.sessions.get(sessionId) === null) continue;
        const known = concerned.get(sessionId);
        if (known === undefined) concerned.set(sessionId, [change]);
        else known.push(change);
      }
    }
    if (this.#everybody) {
      for (const sessionId of this.#deps.sessions.ids()) {
        if (!concerned.has(sessionId)) concerned.set(sessionId, []);
      }
    }
    this.#everybody = false;
    return concerned;
  }

  #tell(sessionId: string, method: string, always = false): void {
    const seen = this.#deps.sessions.get(sessionId);
    if (!always && this.#isRecent(seen?.heard.get(method))) return;
    seen?.notified.set(method, this.#deps.clock.now());
    this.#deps.streams.deliver(sessionId, notification(method, null, 'stateful'));
  }
}
