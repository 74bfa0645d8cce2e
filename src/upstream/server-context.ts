import { kindOf } from '../model/caller-partition.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import type { PoolSettings } from '../model/desired-state.ts';
import type { GatewayError } from '../model/gateway-error.ts';
import type {
  EraVerdicts,
  KnownCatalogs,
  Ownership,
  ServerChangeListener,
  SharedUpstreamSessions,
  UpstreamEvents,
  UpstreamSessions,
} from '../model/ports.ts';
import type { Random } from '../model/random.ts';
import { isOwnProcess, type Server } from '../model/server.ts';
import type { ListKind, ServerCatalog } from '../model/server-catalog.ts';
import type { AuthChallenge, RecoveryStep, ServerStatus } from '../model/server-state.ts';
import type { Wires } from '../model/wire-tap.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Tracer } from '../telemetry/tracing.ts';
import type { Connection } from './connection/connection.ts';
import type { ConnectionOwner } from './connection/server-messages.ts';
import { placeholderClient, type Tenancy, type WantedConnection } from './connection/session-key.ts';
import { fetchesProgram } from './process/command.ts';
import type { StartRecords } from './supervision/start-records.ts';
import type { CloseReason, OpenTransport, Transport } from './transport/transport.ts';

/** Whose connections: those of a client, of a principal that was removed (its id), or the warm connection. */
export type Whose = ClientProfile | { readonly removed: string } | 'spare';

export interface UpstreamSetDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent or null: no spans are recorded. */
  readonly tracer?: Tracer | null;
  /** Absent: traffic cannot be recorded. */
  readonly wires?: Wires;
  readonly events: UpstreamEvents;
  /** Receives state changes of servers, for people and programs that watch. */
  readonly listener?: ServerChangeListener;
  readonly knownCatalogs: KnownCatalogs;
  readonly eraVerdicts: EraVerdicts;
  readonly upstreamSessions: UpstreamSessions;
  /** HTTP upstream sessions that all nodes of the cluster share. Absent: sessions belong to this node. */
  readonly sharedUpstreamSessions?: SharedUpstreamSessions | undefined;
  /** Starts in progress, recorded for the next process. Absent: starts are not recorded. */
  readonly startRecords?: StartRecords | null;
  readonly openTransport: OpenTransport;
  /** Which processes this node owns in a cluster. Absent: all. */
  readonly ownership?: Ownership | undefined;
  /** Maximum of child processes on this node. See `UpstreamSet.limit`. */
  readonly maxProcesses: number;
  /** Upper bound for a call that keeps reporting progress. Default 10 min. */
  readonly maxTimeoutMs?: number;
  /** When the pool closes idle or failing connections. Default: `POOL_DEFAULTS`. */
  readonly pool?: PoolSettings;
  /** Whether the client of this session had a stream open and has none any more. Default: false for every session. */
  readonly clientGone?: (sessionId: string) => boolean;
  /** `clientInfo` presented on a connection without a client; JSON text. */
  readonly clientInfo?: string;
  readonly times?: Partial<UpstreamTimes>;
  /** Concurrent starts of child processes, one of them reserved for calls. Default: the number of processors plus three. */
  readonly startsAtOnce?: number;
  /** Called when a server was listed; no client sees the catalog before it resolves. Never rejects. Default: no check. */
  readonly inspect?: (catalog: ServerCatalog) => Promise<void> | null;
  /** Default: an empty environment, no container, no check of addresses. */
  readonly surroundings?: LaunchSurroundings;
  /** Called before the state becomes `auth_required`: what the hook registers exists when the event arrives (S3.5). */
  readonly beforeAuthRequired?: (status: ServerStatus, challenge: AuthChallenge) => void;
}

/** Limits of this node that the operator may change at run time. */
export interface NodeLimits {
  /** Maximum of child processes over all servers. */
  maxProcesses: number;
  /** Upper bound for a call that keeps reporting progress. */
  maxTimeoutMs: number;
  pool: PoolSettings;
}

/** The gateway's own environment, as far as a start depends on it. */
export interface LaunchSurroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly inContainer: boolean;
  /** Whether a process listens at a server's URL (S2.26). Never rejects. Default: not checked. */
  readonly reachable?: (url: string) => Promise<boolean>;
}

/** S3.3 */
export const DEFAULT_REMOTE_TIMEOUT_MS = 30_000;

export interface UpstreamTimes {
  /** A start, from spawning to the end of the handshake. */
  readonly startupMs: number;
  /** The same for a command that downloads its program first: `npx` that is ended during an installation leaves it broken. */
  readonly fetchingStartupMs: number;
  /** The same for a server behind a URL (S3.3), which downloads nothing before it starts. */
  readonly remoteStartupMs: number;
  /** Time without an answer to `server/discover` before `initialize` is sent too; at least 5 s for a server behind a URL. */
  readonly probeSilenceMs: number;
  /** How long an unresponsive server has to answer a ping (F05). */
  readonly pingMs: number;
  /** How long a replaced or stopping server has to finish its in-flight calls. */
  readonly drainMs: number;
}

export const UPSTREAM_TIMES: UpstreamTimes = {
  startupMs: 60_000,
  fetchingStartupMs: 5 * 60_000,
  remoteStartupMs: DEFAULT_REMOTE_TIMEOUT_MS,
  probeSilenceMs: 2_000,
  pingMs: 5_000,
  drainMs: 30_000,
};

/** A connection that the pool closed, and why; `room`: to make room for another client's connection. */
export interface PoolClosure {
  readonly want: WantedConnection;
  readonly connection: Connection;
  readonly why: 'idle' | 'errors' | 'room' | 'closed';
  /** The HTTP session stays open at the server; the next connection under the session key resumes it. */
  readonly resumable: boolean;
}

/** Events from the parts of one upstream. Implemented by `UpstreamParts`. Handlers do not throw. */
export interface PartEvents extends ConnectionOwner<Connection> {
  /** The connection was closed before its handshake was done. */
  abandoned(connection: Connection): void;
  /** After a network partition another node's session has replaced this connection's session, which is now unusable. */
  superseded(connection: Connection): void;
  /** The state that the server kept for this tenancy's session is lost. */
  stateLost(of: { readonly tenancy: Tenancy }): void;
  /** A connection was assigned to an owner. */
  adopted(connection: Connection, want: WantedConnection): void;
  /** The pool closed a connection whose owner may need another one. */
  closedByPool(closure: PoolClosure): void;
  /** The connection under this key ended without a request of its owner. */
  ended(key: string): void;
  /** Closes an unusable connection and treats it as one that ended by itself. A process ends at once: its successor waits. */
  replace(connection: Connection, error: GatewayError, how: CloseReason): void;
  /** The server has become unhealthy for this reason, or healthy (null). */
  healthChanged(reason: string | null): void;
  /** The observed status of the server has changed. */
  changed(): void;
  /** A requested restart begins or ends (S3.10); `reason`: why it failed. */
  recovery(step: RecoveryStep, reason: string | null): void;
  /** The server was listed; `lists` have changed. `key`: only clients of this connection see them; null: all clients. */
  listed(fingerprint: string, lists: readonly ListKind[], key: string | null): void;
}

/** Minimum time for an HTTP server to answer the probe, because `initialize` opens a session there. */
const REMOTE_SILENCE_MS = 5_000;

/** Shared by all parts of one upstream: the server's definition, the node's dependencies, the receiver of their events. */
export class ServerContext {
  /** The current definition. */
  server: Server;
  /** That of the connection which was begun last, until it ends; its handshake may not be done. */
  newestTransport: Transport | null = null;
  readonly deps: UpstreamSetDeps;
  readonly limits: Readonly<NodeLimits>;
  readonly events: PartEvents;
  readonly logger: Logger;
  readonly times: UpstreamTimes;
  /** Whether the server is local: it is not reached by a URL. */
  readonly local: boolean;
  /** The client profile presented on a connection without a client. */
  readonly placeholderProfile: ClientProfile;
  readonly #seen = new WeakMap<ClientProfile, ClientProfile>();

  constructor(
    server: Server,
    deps: UpstreamSetDeps,
    limits: Readonly<NodeLimits>,
    times: UpstreamTimes,
    events: PartEvents,
  ) {
    this.server = server;
    this.deps = deps;
    this.limits = limits;
    this.events = events;
    this.logger = deps.logger.child({ server: server.name });
    this.local = !('url' in server.transport);
    this.placeholderProfile = this.scopeClient(placeholderClient(deps.clientInfo ?? null));
    const usual = this.local ? times : remoteTimes(times);
    const startupMs = fetchesProgram(server.transport) ? usual.fetchingStartupMs : usual.startupMs;
    const startup = (): number => this.server.startupTimeoutMs ?? startupMs;
    this.times = {
      ...usual,
      get startupMs() {
        return startup();
      },
    };
  }

  get name(): string {
    return this.server.name;
  }

  /** The client as this upstream sees it: its fingerprint includes the caller where the server tells callers apart. */
  scopeClient(client: ClientProfile): ClientProfile {
    const { caller } = this.server;
    if (caller === undefined) return client;
    let seen = this.#seen.get(client);
    if (seen === undefined) this.#seen.set(client, (seen = { ...client, fingerprint: kindOf(client, caller.digest) }));
    return seen;
  }

  /** Whether the server is a child process of this node and counts against the process limits. */
  get ownProcess(): boolean {
    return isOwnProcess(this.server);
  }

  /** Whether the client of this session had a stream open and has none any more. */
  clientGone(sessionId: string): boolean {
    return this.deps.clientGone?.(sessionId) ?? false;
  }

  redacted(text: string): string;
  redacted(text: string | null): string | null;
  redacted(text: string | null): string | null {
    return text === null ? null : this.logger.redact(text);
  }
}

/** A server behind a URL gets a shorter start timeout, because it downloads nothing first (S3.3). */
function remoteTimes(times: UpstreamTimes): UpstreamTimes {
  const probeSilenceMs = Math.max(times.probeSilenceMs, REMOTE_SILENCE_MS);
  return { ...times, probeSilenceMs, startupMs: Math.min(times.startupMs, times.remoteStartupMs) };
}
