import type { ListKind } from '../model/server-catalog.ts';
import { ThrottledTask } from '../model/throttled-task.ts';
import { notification } from '../protocol/compose.ts';
import type { ListParts } from './list-parts.ts';
import type { Listens } from './listens.ts';
import { changedMethods, declaredMethods, type ListChange, methodsDue, type Recipient } from './lists/list-changes.ts';
import type { SeenSession } from './lists/seen-sessions.ts';
import { sees } from './policy/access.ts';

/**
 * Changes within this time cause one notification (three lists of one server, servers starting together). If the comparison of
 * lists takes long, `ThrottledTask` extends it.
 */
const COALESCE_MS = 50;
/** For this long, the gateway does not repeat a notification of a session's own connection, or one for a renewed connection. */
const NOTIFIED_MS = 2_000;
/** Within this time all nodes get the lists that one of them had first. */
const SPREAD_MS = 10_000;

const NONE: ReadonlySet<string> = new Set();

interface AnnouncerDeps extends ListParts {
  readonly listens: Listens;
}

/**
 * Sends list_changed notifications: to each session and each listen at most once per method and burst and, except for a renewed
 * connection, only if the list changed for that client.
 */
export class Announcer {
  readonly #deps: AnnouncerDeps;
  readonly #changes = new Map<string, Omit<ListChange, 'kinds'> & { readonly kinds: Set<ListKind> }>();
  /** Recent changes that other nodes may not have yet, by server, oldest first. */
  readonly #recentChanges = new Map<string, { readonly kinds: Set<ListKind>; at: number }>();
  /** Servers whose recent changes are announced once more. */
  readonly #repeated = new Set<string>();
  readonly #flushing: ThrottledTask;
  #disarm: (() => void) | null = null;
  /** When the last pending change arrived. */
  #changedAt = 0;
  #everybody = false;
  /** By server and connection, the methods that its clients get even without a change; null for all declared ones. */
  readonly #renewed = new Map<string, Map<string, Set<string> | null>>();

  constructor(deps: AnnouncerDeps) {
    this.#deps = deps;
    this.#flushing = new ThrottledTask(deps.clock, () => this.#flush());
  }

  /** Lists of the server changed, for clients of one fingerprint or (null) of all. The caller invalidates the catalogs before. */
  changed(server: string, fingerprint: string | null, kinds: readonly ListKind[], key: string | null = null): void {
    const name = `${server} ${fingerprint ?? '*'} ${key ?? ''}`;
    const change = this.#changes.get(name);
    if (change === undefined) this.#changes.set(name, { server, fingerprint, key, kinds: new Set(kinds) });
    else for (const kind of kinds) change.kinds.add(kind);
    if (key === null) {
      const at = this.#deps.clock.now();
      const lately = this.#recentChanges.get(server);
      const old = lately === undefined || at - lately.at >= SPREAD_MS ? [] : lately.kinds;
      this.#recentChanges.delete(server);
      this.#recentChanges.set(server, { kinds: new Set([...old, ...kinds]), at });
      for (const [name, change] of this.#recentChanges) {
        if (at - change.at < SPREAD_MS) break;
        this.#recentChanges.delete(name);
      }
    }
    this.#arm();
  }

  /**
   * Another node now lists the server differently. A client without a session gets changes only by a listen, and may have asked
   * that node too early: recent changes are announced once more.
   */
  announceAgain(server: string): void {
    const changed = this.#recentChanges.get(server);
    if (changed === undefined || this.#deps.clock.now() - changed.at >= SPREAD_MS) return;
    this.#repeated.add(server);
    this.#arm();
  }

  /**
   * Servers, filters or rights changed: notifies clients whose merged list differs, and clients of the endpoints of servers
   * whose filter changed.
   */
  everything(filtered: Iterable<string>): void {
    this.#everybody = true;
    for (const server of filtered) this.changed(server, null, ['tools']);
    this.#arm();
  }

  /**
   * The server was listed again over this connection, after a break or because it announced changes (`methods`). Notifies the
   * clients of the connection once, even of equal lists, because they may have missed changes.
   */
  renewed(server: string, key: string, methods: readonly string[] | null = null): void {
    const keys = this.#renewed.get(server) ?? new Map<string, Set<string> | null>();
    this.#renewed.set(server, keys);
    const before = keys.get(key);
    keys.set(key, methods === null || before === null ? null : new Set([...(before ?? []), ...methods]));
    this.#arm();
  }

  /** Records a notification by the session's own connection. */
  recordServerNotification({ notifiedByServer }: SeenSession, method: string): void {
    notifiedByServer.set(method, this.#deps.clock.now());
  }

  /** Forgets what the session's process announced: the process is gone, and the session gets other lists. */
  stateLost(sessionId: string): void {
    this.#deps.sessions.get(sessionId)?.notifiedByServer.clear();
  }

  /** Sends pending notifications now, because the streams are about to end. */
  drain(): void {
    if (this.#disarm === null && !this.#flushing.pending) return;
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
    if (this.#disarm !== null || this.#flushing.pending) return;
    this.#disarm = clock.after(COALESCE_MS, () => {
      this.#disarm = null;
      this.#flushing.schedule();
    });
  }

  #flush(): void {
    const changes: ListChange[] = [...this.#changes.values()];
    this.#changes.clear();
    for (const [sessionId, concerning] of this.#concerned(changes)) {
      const seen = this.#deps.sessions.get(sessionId);
      // The session has made no request since the gateway started, so its last notification is not known.
      const methods =
        seen === null
          ? changedMethods(concerning.flatMap(({ kinds }) => [...kinds]))
          : methodsDue(seen, concerning, this.#deps.catalogs, this.#deps.upstreams);
      // No server process announces a change that the gateway made: a filter, a pin.
      const decided = changedMethods(
        concerning.filter(({ fingerprint }) => fingerprint === null).flatMap(({ kinds }) => [...kinds]),
      );
      for (const method of methods) this.#notify(sessionId, method, decided.has(method));
    }
    const renewed = new Map(this.#renewed);
    this.#renewed.clear();
    for (const [server, keys] of renewed) {
      for (const sessionId of this.#sessionsOn(server, new Set(keys.keys()))) {
        const seen = this.#deps.sessions.get(sessionId);
        for (const method of this.#renewedFor(server, keys, seen)) {
          if (!this.#isRecent(seen?.notified.get(method))) this.#notify(sessionId, method);
        }
      }
    }
    const repeated = [...this.#repeated];
    this.#repeated.clear();
    const now = this.#deps.clock.now();
    this.#deps.listens.announce(changes, now, (listen) => {
      const methods = [...renewed]
        .flatMap(([server, keys]) => [...this.#renewedFor(server, keys, listen)])
        .filter((method) => !this.#isRecent(listen.notified.get(method)));
      return new Set([...methods, ...repeated.flatMap((server) => [...this.#latelyFor(server, listen)])]);
    });
  }

  #latelyFor(server: string, { client, endpoint }: Recipient): ReadonlySet<string> {
    if (!sees(client.principal, server) || (endpoint.kind === 'server' && endpoint.server !== server)) return NONE;
    return changedMethods(this.#recentChanges.get(server)?.kinds ?? []);
  }

  /** The methods that are due to the recipient if one of these connections serves it; none otherwise. */
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
    const declared = declaredMethods(catalog.handshake.capabilities);
    return declared.intersection(keys.get(key!) ?? declared);
  }

  /** The sessions with these ids if all keys are ids of sessions; otherwise all sessions that may use the server. */
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
        // Only the id is known of a session that has made no request since the gateway started.
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

  #notify(sessionId: string, method: string, always = false): void {
    const seen = this.#deps.sessions.get(sessionId);
    if (!always && this.#isRecent(seen?.notifiedByServer.get(method))) return;
    seen?.notified.set(method, this.#deps.clock.now());
    this.#deps.streams.deliver(sessionId, notification(method, null, 'stateful'));
  }
}
