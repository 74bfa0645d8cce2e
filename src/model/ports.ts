/**
 * Ports: how rooms that may not import each other meet. Types only; `app/` wires the implementations.
 */
import type { ClientProfile, Principal } from './client-profile.ts';
import type { Exchange } from './exchange.ts';
import type { Era, Message } from './message.ts';
import type { Outcome } from './outcome.ts';
import type { Server } from './server.ts';
import type { InvalidItem, ListKind, ServerCatalog } from './server-catalog.ts';
import type { RecoveryStep, ServerStatus, StateChange } from './server-state.ts';
import type { TaskStatus } from './task-status.ts';

/** All that talks to MCP servers, seen from the gateway. Implemented by `upstream/`. */
export interface Upstreams {
  /** Desired servers, sorted by name. */
  servers(): readonly Server[];
  /**
   * Sends one request of the exchange to a server and resolves with its one outcome; never rejects. `request` is the
   * exchange's own, or a spliced copy with upstream names. Deadline, cancellation, id and progress-token mapping, era
   * translation of the request, session choice and retry of what was never sent all happen behind this call.
   */
  call(server: string, request: Message, exchange: Exchange): Promise<Outcome>;
  /** A notification of the client that belongs to no exchange, to the connections that are this client's own. */
  notify(server: string, notification: Message, client: ClientProfile): void;
  /**
   * The last known catalogue for this client's fingerprint, else null; with `orOthers` what is known for clients with other
   * capabilities is better than nothing. Pure look-up, from memory.
   */
  knownCatalog(server: string, client: ClientProfile, orOthers?: boolean): ServerCatalog | null;
  /**
   * The catalogue for this client, listing the server if it was never listed; null if that does not succeed within
   * `waitMs` (the listing goes on, and `UpstreamEvents.catalogChanged` follows) or the server is down. `amongOthers`:
   * lists of other servers wait for this one; so it gets no time when it has failed before and is not tried again for
   * it, and while it starts only the first `waitMs` of that, or less where its address does not answer.
   */
  catalog(server: string, client: ClientProfile, waitMs: number, amongOthers?: boolean): Promise<ServerCatalog | null>;
  /**
   * Which of the server's connections serves this client: its session key, to be compared and nothing else. Clients
   * with the same key share a connection. null while it is not known in which era the server serves the client.
   */
  sessionKey(server: string, client: ClientProfile): string | null;
  /** Whether this session has a connection of its own to the server, so that a list should be asked live. */
  ownsConnection(server: string, client: ClientProfile): boolean;
  /** The same where only another node may know: it is asked. */
  ownsConnectionElsewhere?(server: string, client: ClientProfile): Promise<boolean>;
  /**
   * A client names something of the server that is not known. If the server has just announced changed lists, the call waits for them.
   * Where other nodes have the server, one of them may have listed it to the client: then it is looked for here too. Resolves when that
   * is done, or after a moment; what it found is in the catalogue by then. False: no lists are due, and no other node has it.
   * Nothing is looked for any more for an exchange that was cancelled.
   */
  foundMeanwhile?(server: string, exchange: Exchange, list: ListKind, name: string): Promise<boolean>;
  status(server: string): ServerStatus | null;
  statuses(): readonly ServerStatus[];
  /** Stops and starts the server with the grace period of S3.4. */
  restart(server: string): Promise<void>;
  /** The client session has ended: closes what was its own. */
  releaseSession(sessionId: string): void;
}

/**
 * Why a connection is gone: it was idle for long, there was no room for it and another, it failed too often, its
 * server is no longer there, or anything else.
 */
export type StateLoss = 'idle' | 'room' | 'errors' | 'closed' | 'removed' | 'restarted';

/** What upstreams tell of their own accord. Implemented by `gateway/`. Handlers neither block nor throw. */
export interface UpstreamEvents {
  /**
   * A notification that belongs to no call in flight. `sessionId` is the one client session the connection belongs to,
   * null for connections that are not one session's; `key` is the connection's (`Upstreams.sessionKey`).
   */
  notification(server: string, sessionId: string | null, message: Message, key: string): void;
  /**
   * A stateful server's own request outside any call; from where, as with notifications. Resolves with the answer to
   * send back (`result` or `error`).
   */
  request(server: string, sessionId: string | null, message: Message, key: string): Promise<Message>;
  /**
   * The server said, on whatever connection and in whosever call, that its lists or a resource are not what it has
   * answered before; at once, and before other handlers. Null: it may have said so while no stream was open.
   */
  outdated(server: string, notification: Message | null): void;
  /**
   * A new snapshot differs from the one before in these lists. `key`: it is what the process behind that connection lists, and
   * only the clients that it serves are shown that; null or absent where all clients of the kind that have no process are.
   */
  catalogChanged(server: string, fingerprint: string, lists: readonly ListKind[], key?: string | null): void;
  /**
   * The server was listed anew because it said that its lists are others, or may have said so unheard. Where other nodes
   * list it too, they have not heard that.
   */
  relisted?(server: string): void;
  /**
   * The server announced changed lists over this connection, with these notifications, and was listed anew since. Its clients
   * are notified also where the lists are the same.
   */
  listsAnnounced?(server: string, key: string, methods: readonly string[]): void;
  /**
   * Another node that has the server has other lists of it than before. Clients that asked there since they changed here were
   * still shown the old ones.
   */
  listedElsewhere?(server: string): void;
  /** A session's own connection was lost with its state, and replaced or not. */
  stateLost(server: string, sessionId: string, cause: StateLoss): void;
  /** A connection began or ended: what was set up on an earlier one (subscriptions, log levels) does not hold on it. */
  connectionChanged(server: string, key: string, change: ConnectionChange): void;
  /**
   * A node fell silent. What was set up there for the clients served there does not hold any more. `servedThere` is
   * answered only during the call: afterwards it may be another node that serves them.
   */
  nodeSilent?(servedThere: (server: string, client: ClientProfile) => boolean): void;
  /** These servers can be had from nodes that had them not: what could not be had of them may be had now. */
  instancesGained?(servers: ReadonlySet<string>): void;
  statusChanged(server: string, status: ServerStatus): void;
}

/**
 * `opened`: calls go over it from now on, and nothing was set up on it yet. `ended`: it is gone, and comes back with a
 * call or by itself. `renewed`: it replaces one that ended by itself, and the server has been listed anew over it.
 * `missed`: the way on which the server tells of its own accord was broken, and it has been listed anew since.
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
  removed(server: string): void;
}

/** Delivery to clients outside any exchange. Implemented by `downstream/`. */
export interface ClientStreams {
  /**
   * Sends a notification on the session's own stream (or its event log while none is open). `server` says whose it is
   * where it calls a request off.
   */
  deliver(sessionId: string, notification: Message, server?: string): void;
  /**
   * Sends a server's request on the session's own stream; rejects with GatewayError when the client cannot be asked.
   */
  ask(sessionId: string, request: Message, server?: string): Promise<Message>;
  /** The ids of the open stateful sessions on an endpoint's path that may use the server; for list_changed. */
  sessionsFor(server: string): Iterable<{ readonly sessionId: string; readonly endpoint: 'aggregate' | 'server' }>;
}

/** Last known catalogues, kept over restarts. Key is opaque to the store. */
export interface KnownCatalogs {
  load(): Iterable<ServerCatalog & { readonly identity: string }>;
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

/** Who is calling, from the request's credentials; null means 401. Implemented by `downstream/auth`. */
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

/** Session records in the shared store. Writes are behind by at most 100 ms; a newer write of a record wins. */
export interface SessionRecords {
  get(id: string): Promise<SessionRecord | null>;
  put(record: SessionRecord): void;
  /** As `put`, where other nodes have the session too. Resolves when they know, or after a moment. Never rejects. */
  putEverywhere?(record: SessionRecord): Promise<void>;
  delete(id: string): void;
  all(): Promise<readonly SessionRecord[]>;
}

export interface LoggedEvent {
  readonly eventId: string;
  readonly message: Buffer;
}

/**
 * What was sent on a client's SSE streams, for replay after `Last-Event-ID`. Bounded per stream in bytes and time
 * (1 MiB, 5 min) and over all of them in bytes (16 MiB); what fell out cannot be replayed. `stream` names a session and
 * one of its streams.
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
  /**
   * Its id on the aggregate, as it was sealed when the task began: whatever key is in force by then, clients hear of no
   * other. Records of earlier versions have none.
   */
  readonly sealedId?: string;
  /** `Principal.id` of the caller that started it; others do not see it. */
  readonly principal: string;
  /** The session whose connection it runs over; null for a client without one, or when that session is over. */
  readonly sessionId: string | null;
  /** That session does not outlive the process. */
  readonly passing?: boolean;
  /** What the client was when it started the task: the connection is found by it again. */
  readonly client: Pick<ClientProfile, 'revision' | 'capabilities' | 'fingerprint' | 'info' | 'handle'>;
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
  put(record: TaskRecord): void;
  delete(key: string): void;
  /** Where other nodes have tasks too: the follower of theirs, and of what was written here. Once. */
  follow?(follower: TaskFollower): void;
}

/** Hears of the tasks of all nodes. Handlers neither block nor throw. */
export interface TaskFollower {
  /** What is known of it here. */
  get(key: string): TaskRecord | null;
  heard(record: TaskRecord): void;
  gone(key: string): void;
}

/**
 * Which processes this node may serve at all, where only one node of a cluster may. Implemented by `cluster/`; a lone node
 * has none and needs none.
 */
export interface Ownership {
  /** For a process that is about to be started, and whose it will be. Rejects with GatewayError NOT_SENT. */
  own(server: Server, client: ClientProfile, whose: 'spare' | 'shared' | 'session' | 'principal'): Promise<Owned>;
  /** Whether a process without an owner may become this client's: not where an earlier owner was newer than it. */
  mayAdopt(server: Server, client: ClientProfile): boolean;
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
