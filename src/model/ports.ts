/** Ports between rooms that may not import each other; `app/` connects the implementations. */
import type { ClientProfile, Principal } from './client-profile.ts';
import type { Exchange } from './exchange.ts';
import type { Era, Message } from './message.ts';
import type { Outcome } from './outcome.ts';
import type { Server } from './server.ts';
import type { InvalidItem, ListKind, ServerCatalog } from './server-catalog.ts';
import type { RecoveryStep, ServerState, ServerStatus, StateChange } from './server-state.ts';
import type { TaskMeasure, TaskSizes } from './task-sizes.ts';
import type { TaskStatus } from './task-status.ts';

/** All that talks to MCP servers, seen from the gateway. Implemented by `upstream/`. */
export interface Upstreams {
  servers(): readonly Server[];
  /**
   * Sends a request of the exchange and resolves with its outcome; never rejects. Deadline, cancellation, id and
   * progress-token mapping, era translation, choice of session and retry of what was not sent are behind this call.
   */
  call(server: string, request: Message, exchange: Exchange): Promise<Outcome>;
  /** A notification of the client that belongs to no exchange, to the connections that are this client's own. */
  notify(server: string, notification: Message, client: ClientProfile): void;
  /** The known catalogue for the client's fingerprint, or null; `orOthers`: any known one. Reads memory only. */
  knownCatalog(server: string, client: ClientProfile, orOthers?: boolean): ServerCatalog | null;
  /**
   * The catalogue; lists the server if it never was. Null when that takes longer than `waitMs` (it goes on, then
   * `catalogChanged`) or the server is down. `amongOthers`: other lists wait, so that a server that failed before gets
   * no time, and a starting one only the first `waitMs`.
   */
  catalog(server: string, client: ClientProfile, waitMs: number, amongOthers?: boolean): Promise<ServerCatalog | null>;
  /** Tells apart clients of one kind that are shown lists of different processes; empty for most. */
  shownFrom?(client: ClientProfile): string;
  /** The session key of the connection that serves this client, only to be compared. Null while the era is unknown. */
  sessionKey(server: string, client: ClientProfile): string | null;
  /** Whether this session has a connection of its own to the server, so that a list should be asked live. */
  ownsConnection(server: string, client: ClientProfile): boolean;
  /** The same where only another node may know: it is asked. */
  ownsConnectionElsewhere?(server: string, client: ClientProfile): Promise<boolean>;
  /**
   * For a name that is not known: waits a moment for announced lists, and for the lists of other nodes. False where
   * neither is due, or the exchange was cancelled; what was found is in the catalogue.
   */
  foundMeanwhile?(server: string, exchange: Exchange, list: ListKind, name: string): Promise<boolean>;
  /** `client`: as it is for this client, where the server tells its callers apart. */
  status(server: string, client?: ClientProfile | null): ServerStatus | null;
  /** The state alone, which costs nothing however many connections the server has. */
  state(server: string, client?: ClientProfile | null): ServerState | null;
  statuses(): readonly ServerStatus[];
  /** Stops and starts the server with the grace period of S3.4. */
  restart(server: string): Promise<void>;
  /** The client session has ended: closes what was its own. */
  releaseSession(sessionId: string): void;
}

/** Why a connection ended: idle, no room for it, too many errors, server removed or restarted, or another reason. */
export type StateLoss = 'idle' | 'room' | 'errors' | 'closed' | 'removed' | 'restarted';

/** What upstreams tell of their own accord. Implemented by `gateway/`. Handlers neither block nor throw. */
export interface UpstreamEvents {
  /** A notification of no call in flight. `sessionId`: the one session of the connection; `key`: its session key. */
  notification(server: string, sessionId: string | null, message: Message, key: string): void;
  /** A stateful server's request outside any call. Resolves with the `result` or `error` for it. */
  request(server: string, sessionId: string | null, message: Message, key: string): Promise<Message>;
  /** Lists or a resource changed; runs before other handlers. Null: perhaps said while no stream was open. */
  outdated(server: string, notification: Message | null): void;
  /** These lists of the new snapshot differ. `key`: for clients of that connection's process only; null: all others. */
  catalogChanged(server: string, fingerprint: string, lists: readonly ListKind[], key?: string | null): void;
  /** The server was listed anew for a change that other nodes may not know of. */
  relisted?(server: string): void;
  /** The server announced changed lists and was listed anew; its clients are notified even of equal lists. */
  listsAnnounced?(server: string, key: string, methods: readonly string[]): void;
  /** Another node lists the server otherwise than before; its clients may have seen old lists since the change here. */
  listedElsewhere?(server: string): void;
  /** A session's own connection was lost with its state, and replaced or not. */
  stateLost(server: string, sessionId: string, cause: StateLoss): void;
  /** A connection began or ended: what was set up on an earlier one (subscriptions, log levels) does not hold on it. */
  connectionChanged(server: string, key: string, change: ConnectionChange): void;
  /** A node fell silent, and what was set up there is void. `servedThere` answers only during the call. */
  nodeSilent?(servedThere: (server: string, client: ClientProfile) => boolean): void;
  /** These servers can be had from nodes that had them not: what could not be had of them may be had now. */
  instancesGained?(servers: ReadonlySet<string>): void;
  statusChanged(server: string, status: ServerStatus): void;
}

/**
 * `opened`: calls follow, nothing is set up. `ended`: a call or the connection itself opens it again. `renewed`:
 * replaced and listed anew. `missed`: the stream of notifications was broken, and the server listed anew.
 */
export type ConnectionChange = 'opened' | 'ended' | 'renewed' | 'missed';

/** What becomes of servers, step by step, for people and programs that watch. Handlers neither block nor throw. */
export interface ServerNews {
  added(server: string): void;
  moved(server: string, change: StateChange): void;
  /** It is up, and was found unhealthy for this reason, or healthy again (null). */
  healthTurned(server: string, reason: string | null): void;
  /** A changed definition has taken over from the one before. */
  replaced(server: string): void;
  /** A restart that was asked for begins or ends (S3.10); `reason` says why it failed. */
  recovery(server: string, step: RecoveryStep, reason: string | null): void;
  /** An item of its lists is left out because clients could not use a list with it. Once in each run of the server. */
  listItemInvalid(server: string, invalid: InvalidItem): void;
  /**
   * It asks for a login, of the principal or (null) of the one that all callers share: `advice` says what to do. `advice` null:
   * it has taken the credential of one.
   */
  loginNeeded(server: string, principal: string | null, advice: string | null): void;
  removed(server: string): void;
}

/** Delivery to clients outside any exchange. Implemented by `downstream/`. */
export interface ClientStreams {
  /** Sends a notification on the session's stream or to its event log. `server`: whose request it cancels. */
  deliver(sessionId: string, notification: Message, server?: string): void;
  /** Sends a server's request on the session's stream; rejects with GatewayError when the client cannot be asked. */
  ask(sessionId: string, request: Message, server?: string): Promise<Message>;
  /** The ids of the open stateful sessions on an endpoint's path that may use the server; for list_changed. */
  sessionsFor(server: string): Iterable<{ readonly sessionId: string; readonly endpoint: 'aggregate' | 'server' }>;
}

/** Last known catalogues, kept over restarts. Key is opaque to the store. */
export interface KnownCatalogs {
  /** Of all servers, or of one; `identity`: how those begin that are wanted. */
  load(server?: string, identity?: string): Iterable<ServerCatalog & { readonly identity: string }>;
  save(identity: string, catalog: ServerCatalog): void;
  forget(server: string): void;
}

export interface EraVerdict {
  /** The newest era that the server speaks. */
  readonly era: 'stateful' | 'stateless';
  readonly revision: string;
  /** Whether a server of the stateless era takes `initialize` too; absent until it was asked. */
  readonly also?: 'stateful' | 'none';
}

/** What probing found out about a server, kept over restarts. `identity` is the server's connection digest. */
export interface EraVerdicts {
  get(identity: string): EraVerdict | null;
  set(identity: string, verdict: EraVerdict): void;
  forget(identity: string): void;
}

export interface Authenticator {
  authenticate(authorization: string | undefined): Principal | null;
}

/** A stateful client session as it survives connections, processes and nodes. Small: no live objects. */
export interface SessionRecord {
  readonly id: string;
  /** `Principal.id` of the owner; other callers get 404. */
  readonly principal: string;
  /** `Endpoint.path` it was opened on; it does not exist elsewhere. */
  readonly endpoint: string;
  readonly revision: string;
  readonly capabilities: string;
  readonly info: string | null;
  readonly initialized: boolean;
  /** What the client asked for with logging/setLevel; null for never. */
  readonly logLevel: string | null;
  /** Wall clock. */
  readonly createdAt: number;
  readonly lastSeenAt: number;
}

/** The sessions of all nodes, as this one knows them. `principal`: of one caller; null: of all. */
export interface SessionCensus {
  readonly nodes: number;
  count(principal: string | null): number;
  /** Null if none was unused for `unusedMs`. */
  longestUnused(principal: string | null, unusedMs: number): SessionRecord | null;
}

/** Session records in the shared store. Writes are behind by at most 100 ms; a newer write of a record wins. */
export interface SessionRecords {
  /** Absent: no other node has sessions. */
  readonly census?: SessionCensus;
  get(id: string): Promise<SessionRecord | null>;
  /** `isNew`: of a session that begins. */
  put(record: SessionRecord, isNew?: boolean): void;
  /** As `put`, where other nodes have the session too. Resolves when they know, or after a moment. Never rejects. */
  putEverywhere?(record: SessionRecord): Promise<void>;
  delete(id: string): void;
  /** All, or in a large cluster those of this node and those that were used last. */
  all(): Promise<readonly SessionRecord[]>;
  /** Every stored record, until `visitor` returns true. */
  visit(visitor: (record: SessionRecord) => boolean): Promise<void>;
}

export interface LoggedEvent {
  readonly eventId: string;
  readonly message: Buffer;
}

/**
 * What was sent on SSE streams, for `Last-Event-ID`: at most 1 MiB and 5 min per stream and 16 MiB in all. `stream`: a
 * session and one of its streams.
 */
export interface EventLog {
  /** Event ids grow, are unique per session, and name their stream. Returns at once; durable within 100 ms. */
  append(sessionId: string, stream: string, message: Buffer): string;
  /** Events of the same stream after the given id, oldest first; null when the id is unknown to this session. */
  after(
    sessionId: string,
    eventId: string,
  ): Promise<{ readonly stream: string; readonly events: readonly LoggedEvent[] } | null>;
  forget(sessionId: string): void;
}

/** Upstream HTTP sessions, so that they outlive the gateway's process. Key: server and session key. */
export interface UpstreamSessions {
  get(server: string, sessionKey: string): UpstreamSessionRecord | null;
  put(server: string, sessionKey: string, record: UpstreamSessionRecord): void;
  delete(server: string, sessionKey: string): void;
}

export interface UpstreamSessionRecord {
  /** The connection digest of the server it was opened at; a changed definition makes it worthless. */
  readonly identity: string;
  readonly mcpSessionId: string;
  readonly hello: string;
  readonly revision: string;
  readonly fingerprint: string;
  /** The log level that was sent to its server when it was opened; absent for none. */
  readonly logLevel?: string;
}

/** A task that a server runs for a caller of ours, as it outlives connections, sessions and this process. */
export interface TaskRecord {
  /** Ours, unique: two processes of one server may give out one id. */
  readonly key: string;
  readonly server: string;
  /** The server's own id; one of ours where there is no task of the server's. */
  readonly taskId: string;
  /** Its id on the aggregate as sealed at the start; stays when the key changes. Absent in old records. */
  readonly sealedId?: string;
  /** `Principal.id` of the caller that started it; others do not see it. */
  readonly principal: string;
  /** The session whose connection it runs over; null for a client without one, or when that session is over. */
  readonly sessionId: string | null;
  /** That session does not outlive the process. */
  readonly passing?: boolean;
  /** What the client was when it started the task: the connection is found by it again. */
  readonly client: Pick<ClientProfile, 'revision' | 'capabilities' | 'fingerprint' | 'info' | 'handle' | 'forwarded'>;
  /** In whose words the server speaks of it; null for a task of our own making, whose answer is there already. */
  readonly era: Era | null;
  /** The tool's structured results are wrapped for stateful clients. */
  readonly wraps: boolean;
  readonly status: TaskStatus;
  /** The task's description, as last heard, in the words of 2025-11-25 and with the server's own id. */
  readonly description: Buffer;
  readonly ttlMs: number | null;
  readonly pollIntervalMs: number | null;
  /** How the call ended, once that was seen: the body of the server's result or error, in the words of its era. */
  readonly answer: { readonly kind: 'result' | 'error'; readonly era: Era; readonly body: Buffer } | null;
  /** Wall clock. */
  readonly startedAt: number;
  /** Wall clock. Then the record is deleted. */
  readonly expiresAt: number;
}

/** Task records in the store. A new one is on disk when `put` returns; what follows is behind by at most 100 ms. */
export interface TaskRecords {
  load(): Iterable<TaskRecord>;
  /** `own`, the default: this node began it. */
  put(record: TaskRecord, own?: boolean): void;
  delete(key: string): void;
  /** Absent: no other node has tasks. */
  readonly shared?: SharedTasks;
}

/** Where other nodes have tasks too. A node need not have all of theirs at hand: what it forgets, it reads again. */
export interface SharedTasks {
  readonly nodes: number;
  /** How many of other nodes a node has at hand. */
  readonly maxTasks: number;
  /** At hand, and of these what this node began. The follower counts. */
  readonly atHand: TaskSizes;
  readonly own: TaskSizes;
  /** The follower of other nodes' tasks, and of what was written here. Once. */
  follow(follower: TaskFollower): void;
  /** Another node's task, which is no longer at hand. It stays in the store. */
  forget(key: string): void;
  /** Reads tasks of the route that are not at hand; the follower hears of them. Rejects with GatewayError NOT_SENT. */
  read(route: Pick<TaskRecord, 'server' | 'taskId'>): Promise<void>;
  /** What the nodes last published, each of its own; 0 as long as all tasks are at hand. `principal` null: of all callers. */
  counted(what: TaskMeasure, principal: string | null): number;
}

/** Hears of the tasks of all nodes. Handlers neither block nor throw. */
export interface TaskFollower {
  /** What is known of it here. */
  get(key: string): TaskRecord | null;
  heard(record: TaskRecord): void;
  gone(key: string): void;
  /** Whether it is to stay at hand: this node began it, or a request waits for it here. */
  keeps(key: string): boolean;
}

/** Which processes this node may run where only one node may. Implemented by `cluster/`; absent without a cluster. */
export interface Ownership {
  /** For a process that is about to be started, and whose it will be. Rejects with GatewayError NOT_SENT. */
  own(server: Server, client: ClientProfile, whose: 'spare' | 'shared' | 'session' | 'principal'): Promise<Owned>;
  /** Whether a process without an owner may become this client's: not where an earlier owner was newer than it. */
  mayAdopt(server: Server, client: ClientProfile): boolean;
  /** Runs it once, when this node next has its lease; the returned function cancels that. Null while it has one. */
  whenHeld(run: () => void): (() => void) | null;
}

export interface Owned {
  /** The fencing token, `incarnation.revision`; empty for a shared process of a node without a lease. */
  readonly epoch: string;
  /** At this instant, by the monotonic clock. When it is not, nothing may be sent any more. */
  readonly stillMine: boolean;
  /** The process without an owner is this client's from now on, or (null) shared. */
  adopted(client: ClientProfile | null): void;
  /** The process can be called from now on … */
  ready(): void;
  /** … and not any more. */
  ending(): void;
  /** Nothing is left of it. */
  release(): void;
}

/** Which upstream HTTP session: of a server as it is defined, under the digest of a session key. */
export interface SessionPlace {
  readonly server: string;
  /** The connection digest of the definition. */
  readonly identity: string;
  readonly key: string;
}

export interface OpenedSession {
  readonly kind: 'open';
  readonly record: UpstreamSessionRecord;
  /** Tells it from those before and after it under the same key. */
  readonly generation: string;
}

/** Leave to open the session, given to one at a time. Ends with one of the two. */
export interface SessionLock {
  readonly kind: 'lock';
  readonly replaces: boolean;
  /** Resolves with its generation. Rejects with GatewayError when another one has had to take over. */
  opened(record: UpstreamSessionRecord): Promise<string>;
  /** Nothing was opened, or nothing that others could use. */
  failed(): Promise<void>;
}

/** A connection that uses such a session. */
export interface SessionMember {
  /** It listens already, because it has opened the session: what the first call makes the server say is heard. */
  readonly listens: boolean;
  /** The session is of this generation from now on, and still the same. */
  renamed(generation: string): void;
  /** Listens to the server's stream after this event (null: not known). `gap`: messages may have been missed. */
  listen(after: string | null, gap: boolean): void;
  /** Does not listen any more. Returns the last event that it has heard; null for none with an id. */
  silence(): string | null;
  /** The nodes were apart, and another one's session is in this one's place. */
  replaced(): void;
}

/** Upstream HTTP sessions of a cluster: one node opens and listens, all use them. Absent without a cluster. */
export interface SharedUpstreamSessions {
  /**
   * The open session, or leave to open it; `gone`: the generation that the server no longer knows. Waits for another
   * opener while `wanted`. Rejects with GatewayError NOT_SENT.
   */
  enter(place: SessionPlace, gone: string | null, wanted: () => boolean): Promise<OpenedSession | SessionLock>;
  /** Whether it is open. Never rejects. */
  known(place: SessionPlace): Promise<boolean>;
  join(place: SessionPlace, member: SessionMember): void;
  leave(place: SessionPlace, member: SessionMember): void;
  /**
   * Ends this generation, or any (null). One caller gets the record and ends it at the server, all others null.
   * `withServer`: the server leaves this node. Never rejects.
   */
  end(place: SessionPlace, generation: string | null, withServer: boolean): Promise<UpstreamSessionRecord | null>;
}
