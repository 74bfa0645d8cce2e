/** Ports between modules that may not import each other; `app/` connects the implementations. */
import type { ClientProfile, Principal } from './client-profile.ts';
import type { Exchange } from './exchange.ts';
import type { Era, Message } from './message.ts';
import type { Outcome } from './outcome.ts';
import type { Server } from './server.ts';
import type { InvalidItem, ListKind, ServerCatalog } from './server-catalog.ts';
import type { RecoveryStep, ServerState, ServerStatus, StateChange } from './server-state.ts';
import type { TaskMeasure, TaskSizes } from './task-sizes.ts';
import type { TaskStatus } from './task-status.ts';

/** The MCP servers as the gateway sees them. Implemented by `upstream/`. */
export interface Upstreams {
  servers(): readonly Server[];
  /**
   * Sends a request of the exchange and resolves with its outcome; never rejects. This call handles the deadline,
   * cancellation, id and progress-token mapping, era translation, choice of session and the retry of what was not sent.
   */
  call(server: string, request: Message, exchange: Exchange): Promise<Outcome>;
  /** Sends a client's notification that belongs to no exchange on the connections that only this client uses. */
  notify(server: string, notification: Message, client: ClientProfile): void;
  /** The known catalogue for the client's fingerprint, or null; `orOthers`: else one for another client. Reads memory only. */
  knownCatalog(server: string, client: ClientProfile, orOthers?: boolean): ServerCatalog | null;
  /**
   * The catalogue; lists the server if it never was. Null if that takes longer than `waitMs` (it continues, then
   * `catalogChanged`) or the server is down. `amongOthers`: other lists wait, so a server that failed before gets no time,
   * and a starting one only the first `waitMs`.
   */
  catalog(server: string, client: ClientProfile, waitMs: number, amongOthers?: boolean): Promise<ServerCatalog | null>;
  /** Distinguishes clients of one kind that get the lists of different processes; empty for most. */
  listSourceKey?(client: ClientProfile): string;
  /** The session key of the connection that serves this client, only for comparison. Null while the era is unknown. */
  sessionKey(server: string, client: ClientProfile): string | null;
  /** Whether this session has its own connection to the server, so that a list should be requested live. */
  ownsConnection(server: string, client: ClientProfile): boolean;
  /** As `ownsConnection`, but asks another node if only that node may know. */
  ownsConnectionElsewhere?(server: string, client: ClientProfile): Promise<boolean>;
  /**
   * For an unknown name: waits a moment for announced lists and for the lists of other nodes. Resolves with false if neither
   * is pending or the exchange was cancelled; the catalogue then has what was found.
   */
  awaitPendingLists?(server: string, exchange: Exchange, list: ListKind, name: string): Promise<boolean>;
  /** `client`: the status for this client, if the server separates its callers. */
  status(server: string, client?: ClientProfile | null): ServerStatus | null;
  /** Only the state, which is cheap however many connections the server has. */
  state(server: string, client?: ClientProfile | null): ServerState | null;
  statuses(): readonly ServerStatus[];
  /** Stops the server with the grace period of S3.4 and starts it again. */
  restart(server: string): Promise<void>;
  /** The client session has ended: closes the connections that only it used. */
  releaseSession(sessionId: string): void;
}

/** Why a connection ended: idle, no room for it, too many errors, server removed or restarted, or another reason. */
export type StateLoss = 'idle' | 'room' | 'errors' | 'closed' | 'removed' | 'restarted';

/** Events of upstreams. Implemented by `gateway/`. Handlers neither block nor throw. */
export interface UpstreamEvents {
  /** A notification outside any in-flight call. `sessionId`: the only session of the connection; `key`: its session key. */
  notification(server: string, sessionId: string | null, message: Message, key: string): void;
  /** A stateful server's request outside any call. Resolves with the `result` or `error` to answer. */
  request(server: string, sessionId: string | null, message: Message, key: string): Promise<Message>;
  /** Lists or a resource changed; runs before other handlers. Null: perhaps announced while no stream was open. */
  contentChanged(server: string, notification: Message | null): void;
  /** These lists of the new snapshot differ. `key`: only for clients of that connection's process; null: for all others. */
  catalogChanged(server: string, fingerprint: string, lists: readonly ListKind[], key?: string | null): void;
  /** The server was listed again because of a change that other nodes may not know. */
  relisted?(server: string): void;
  /** The server announced changed lists and was listed again; its clients are notified even if the lists are equal. */
  listsAnnounced?(server: string, key: string, methods: readonly string[]): void;
  /** Another node now lists the server differently; its clients may have seen old lists since the change here. */
  listedElsewhere?(server: string): void;
  /** A session lost its own connection with the state on it, whether or not a new connection replaces it. */
  stateLost(server: string, sessionId: string, cause: StateLoss): void;
  /** A connection began or ended: subscriptions and log levels of an earlier connection do not apply to it. */
  connectionChanged(server: string, key: string, change: ConnectionChange): void;
  /** A node fell silent, and its subscriptions are void. `servedThere` may be called only during this call. */
  nodeSilent?(servedThere: (server: string, client: ClientProfile) => boolean): void;
  /** More nodes offer these servers: what was not available from the servers before may be now. */
  instancesGained?(servers: ReadonlySet<string>): void;
  statusChanged(server: string, status: ServerStatus): void;
}

/**
 * `opened`: calls follow, nothing is set up. `ended`: a call or the connection itself reopens it. `renewed`: replaced and
 * listed again. `missed`: the notification stream was interrupted, and the server was listed again.
 */
export type ConnectionChange = 'opened' | 'ended' | 'renewed' | 'missed';

/** Changes of servers, step by step, for people and programs that watch. Handlers neither block nor throw. */
export interface ServerChangeListener {
  added(server: string): void;
  stateChanged(server: string, change: StateChange): void;
  /** A running server turned unhealthy for this reason, or healthy again (null). */
  healthChanged(server: string, reason: string | null): void;
  /** A changed definition has replaced the previous one. */
  replaced(server: string): void;
  /** A requested restart begins or ends (S3.10); `reason` says why it failed. */
  recovery(server: string, step: RecoveryStep, reason: string | null): void;
  /** An item of its lists is left out because clients could not use a list with it. Once in each run of the server. */
  listItemInvalid(server: string, invalid: InvalidItem): void;
  /**
   * The server needs a login of the principal, or (null) of the operator for all callers: `advice` says what to do. `advice`
   * null: the server has accepted a credential.
   */
  loginNeeded(server: string, principal: string | null, advice: string | null): void;
  removed(server: string): void;
}

/** Delivery to clients outside any exchange. Implemented by `downstream/`. */
export interface ClientStreams {
  /** Sends a notification on the session's stream or to its event log. `server`: the server whose request it cancels. */
  deliver(sessionId: string, notification: Message, server?: string): void;
  /** Sends a server's request on the session's stream; rejects with GatewayError when the client cannot be asked. */
  ask(sessionId: string, request: Message, server?: string): Promise<Message>;
  /** The ids of the open stateful sessions on an endpoint's path that may use the server; for list_changed. */
  sessionsFor(server: string): Iterable<{ readonly sessionId: string; readonly endpoint: 'aggregate' | 'server' }>;
}

/** A resource of a server that a client has subscribed to; `exposed` is the client's name of it. */
export interface SubscribedResource {
  readonly server: string;
  readonly uri: string;
  readonly exposed: string;
}

/** Whether the server accepted a subscription that was made again; `later`: it could not be asked. */
export type SubscribedAgain = 'agreed' | 'refused' | 'later';

/** Last known catalogues, kept across restarts. The key is opaque to the store. */
export interface KnownCatalogs {
  /** Catalogues of all servers, or of one; `identity`: a prefix of the wanted identities. */
  load(server?: string, identity?: string): Iterable<ServerCatalog & { readonly identity: string }>;
  save(identity: string, catalog: ServerCatalog): void;
  forget(server: string): void;
}

export interface EraVerdict {
  /** The newest era that the server supports. */
  readonly era: 'stateful' | 'stateless';
  readonly revision: string;
  /** Whether a server of the stateless era also accepts `initialize`; absent until probed. */
  readonly also?: 'stateful' | 'none';
}

/** Results of probing servers, kept across restarts. `identity` is the server's connection digest. */
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
  /** `Endpoint.path` on which it was opened; unknown on other endpoints. */
  readonly endpoint: string;
  readonly revision: string;
  readonly capabilities: string;
  readonly info: string | null;
  readonly initialized: boolean;
  /** The level that the client set with logging/setLevel; null if it set none. */
  readonly logLevel: string | null;
  /** Wall clock. */
  readonly createdAt: number;
  readonly lastSeenAt: number;
}

/** The sessions of all nodes, as this node knows them. `principal`: of one caller; null: of all. */
export interface SessionCensus {
  readonly nodes: number;
  count(principal: string | null): number;
  /** Null if no session was unused for `unusedMs`. */
  longestUnused(principal: string | null, unusedMs: number): SessionRecord | null;
}

/** Session records in the shared store. Writes are at most 100 ms behind; a newer write of a record wins. */
export interface SessionRecords {
  /** Absent: no other node has sessions. */
  readonly census?: SessionCensus;
  get(id: string): Promise<SessionRecord | null>;
  /** `isNew`: the session begins now. */
  put(record: SessionRecord, isNew?: boolean): void;
  /** As `put`, for a session that other nodes use too. Resolves when they know it, or after a moment. Never rejects. */
  putEverywhere?(record: SessionRecord): Promise<void>;
  delete(id: string): void;
  /** False while sessions may be in use at other nodes without a sign of it here. Absent: no other node has sessions. */
  readonly current?: boolean;
  /** All records; in a large cluster those of this node and the most recently used ones. */
  all(): Promise<readonly SessionRecord[]>;
  /** Every stored record, until `visitor` returns true. */
  visit(visitor: (record: SessionRecord) => boolean): Promise<void>;
}

/** Oldest first. `gap`: messages before them have left the log or, if an earlier process logged them, may have. */
export interface LoggedEvents {
  readonly stream: string;
  readonly events: readonly { readonly eventId: string; readonly message: Buffer }[];
  readonly gap: boolean;
}

/**
 * Events sent on SSE streams, for `Last-Event-ID`: at most 1 MiB and 5 min per stream and 16 MiB in all. `stream`: identifies
 * a session and one of its streams. `previous`: the event before on the stream, all of which may have left the log.
 */
export interface EventLog {
  /** Event ids increase, are unique per session, and name their stream. Returns at once; durable within 100 ms. */
  append(sessionId: string, stream: string, message: Buffer, previous?: string | null): string;
  /** What is kept of the same stream after the event, which may have left the log; null if nothing kept is that new. */
  after(sessionId: string, eventId: string): Promise<LoggedEvents | null>;
  forget(sessionId: string): void;
}

/** Upstream HTTP sessions, which outlive the gateway's process. Key: server and session key. */
export interface UpstreamSessions {
  get(server: string, sessionKey: string): UpstreamSessionRecord | null;
  put(server: string, sessionKey: string, record: UpstreamSessionRecord): void;
  delete(server: string, sessionKey: string): void;
  deleteAll(server: string): void;
}

export interface UpstreamSessionRecord {
  /** The connection digest of the server at which it was opened; after a change of the definition the session is void. */
  readonly identity: string;
  readonly mcpSessionId: string;
  readonly hello: string;
  readonly revision: string;
  readonly fingerprint: string;
  /** The log level that was sent to the server at the opening; absent for none. */
  readonly logLevel?: string;
}

/** A task that a server runs for a client; it outlives connections, sessions and this process. */
export interface TaskRecord {
  /** The gateway's unique key: two processes of one server may use the same task id. */
  readonly key: string;
  readonly server: string;
  /** The server's own id; the gateway's if the server has no task. */
  readonly taskId: string;
  /** The id on the aggregate endpoint as sealed at the start; stays when the key changes. Absent in old records. */
  readonly sealedId?: string;
  /** `Principal.id` of the caller that started it; other callers do not see it. */
  readonly principal: string;
  /** The session whose connection it runs over; null for a client without one, or after that session has ended. */
  readonly sessionId: string | null;
  /** The session does not outlive the process. */
  readonly passing?: boolean;
  /** The client at the start of the task; identifies the connection later. */
  readonly client: Pick<ClientProfile, 'revision' | 'capabilities' | 'fingerprint' | 'info' | 'handle' | 'forwarded'>;
  /** The era of the server's messages about it; null for a task of the gateway's own, which already has its answer. */
  readonly era: Era | null;
  /** The gateway wraps the tool's structured results for stateful clients. */
  readonly wraps: boolean;
  readonly status: TaskStatus;
  /** The last known description of the task, in the vocabulary of 2025-11-25 and with the server's own id. */
  readonly description: Buffer;
  readonly ttlMs: number | null;
  readonly pollIntervalMs: number | null;
  /** The outcome of the call, once known: the body of the server's result or error, in the vocabulary of its era. */
  readonly answer: { readonly kind: 'result' | 'error'; readonly era: Era; readonly body: Buffer } | null;
  /** Wall clock. */
  readonly startedAt: number;
  /** Wall clock. The record is deleted then. */
  readonly expiresAt: number;
}

/** Task records in the store. A new one is on disk when `put` returns; later writes are at most 100 ms behind. */
export interface TaskRecords {
  load(): Iterable<TaskRecord>;
  /** `own`, the default: this node began the task. */
  put(record: TaskRecord, own?: boolean): void;
  delete(key: string): void;
  /** Absent: no other node has tasks. */
  readonly shared?: SharedTasks;
}

/** Present if other nodes have tasks too. A node keeps only some of their tasks in memory and reads the others again. */
export interface SharedTasks {
  readonly nodes: number;
  /** How many tasks of other nodes a node keeps in memory. */
  readonly maxTasks: number;
  /** Tasks in memory, and those of them that this node began. The observer counts them. */
  readonly inMemory: TaskSizes;
  readonly own: TaskSizes;
  /** Sets the only observer of other nodes' tasks and of the records written on this node. */
  setObserver(observer: TaskObserver): void;
  /** Drops another node's task from memory. It stays in the store. */
  forget(key: string): void;
  /** Reads the tasks of the route that are not in memory and passes them to the observer. Rejects with GatewayError NOT_SENT. */
  read(route: Pick<TaskRecord, 'server' | 'taskId'>): Promise<void>;
  /** The sum of what the nodes last published; 0 while all tasks are in memory. `principal` null: of all callers. */
  publishedTotal(what: TaskMeasure, principal: string | null): number;
}

/** Receives the tasks of all nodes. Handlers neither block nor throw. */
export interface TaskObserver {
  /** The record that this node has in memory. */
  get(key: string): TaskRecord | null;
  received(record: TaskRecord): void;
  removed(key: string): void;
  /** Whether the task must stay in memory: this node began it, or a request on this node waits for it. */
  mustKeep(key: string): boolean;
}

/** Decides which processes this node may run if only one node may. Implemented by `cluster/`; absent without a cluster. */
export interface Ownership {
  /** Call before starting a process. `whose`: the owner of the process. Rejects with GatewayError NOT_SENT. */
  acquire(
    server: Server,
    client: ClientProfile,
    whose: 'spare' | 'shared' | 'session' | 'principal',
  ): Promise<OwnedProcess>;
  /** Whether a spare process may become this client's: not if an earlier owner of the client is newer than the process. */
  mayAdopt(server: Server, client: ClientProfile): boolean;
  /** Runs it once, when this node next has its lease; the returned function cancels that. Null if it has a lease now. */
  onLeaseAcquired(run: () => void): (() => void) | null;
}

export interface OwnedProcess {
  /** The fencing token, `incarnation.revision`; empty for a shared process of a node without a lease. */
  readonly epoch: string;
  /** Whether this node owns the process now, by the monotonic clock. If not, the caller must not send to it. */
  readonly isHeld: boolean;
  /** Gives the spare process to this client, or (null) to all clients. */
  assignTo(client: ClientProfile | null): void;
  /** From now on the process accepts calls … */
  ready(): void;
  /** … and from now on it does not. */
  ending(): void;
  /** The process and its resources are gone. */
  release(): void;
}

/** Identifies an upstream HTTP session: a definition of a server, and the digest of a session key. */
export interface UpstreamSessionRef {
  readonly server: string;
  /** The connection digest of the definition. */
  readonly identity: string;
  readonly key: string;
}

export interface OpenedSession {
  readonly kind: 'open';
  readonly record: UpstreamSessionRecord;
  /** Distinguishes it from earlier and later sessions under the same key. */
  readonly generation: string;
}

/** Permission to open the session; only one holder at a time. It ends with one of the two methods. */
export interface SessionLock {
  readonly kind: 'lock';
  readonly replaces: boolean;
  /** Resolves with the session's generation. Rejects with GatewayError if another opener has taken over. */
  opened(record: UpstreamSessionRecord): Promise<string>;
  /** No session was opened, or none that others could use. */
  failed(): Promise<void>;
}

/** A connection that uses a shared upstream session. */
export interface SessionMember {
  /** Whether it opened the session and so listens already: it receives what the server sends because of the first call. */
  readonly listens: boolean;
  /** The unchanged session has this generation from now on. */
  generationChanged(generation: string): void;
  /** Listens to the server's stream after this event (null: unknown). `gap`: messages may have been missed. */
  listen(after: string | null, gap: boolean): void;
  /** Stops listening. Returns the id of the last event that it received; null without one. */
  stopListening(): string | null;
  /** After a partition, another node's session has taken the place of this one. */
  replaced(): void;
}

/** Upstream HTTP sessions of a cluster: one node opens each and listens, all nodes use it. Absent without a cluster. */
export interface SharedUpstreamSessions {
  /**
   * Resolves with the open session, or with the lock to open it. `gone`: the generation that the server no longer knows.
   * Waits for another opener while `wanted`. Rejects with GatewayError NOT_SENT.
   */
  acquire(
    place: UpstreamSessionRef,
    rejected: string | null,
    wanted: () => boolean,
  ): Promise<OpenedSession | SessionLock>;
  /** Whether the session is open. Never rejects. */
  isOpen(place: UpstreamSessionRef): Promise<boolean>;
  join(place: UpstreamSessionRef, member: SessionMember): void;
  leave(place: UpstreamSessionRef, member: SessionMember): void;
  /**
   * Ends this generation, or any (null). One caller gets the record and ends the session at the server; others get null.
   * `withServer`: the server is removed from this node. Never rejects.
   */
  end(place: UpstreamSessionRef, generation: string | null, withServer: boolean): Promise<UpstreamSessionRecord | null>;
}
