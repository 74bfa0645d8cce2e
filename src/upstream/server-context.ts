import { kindOf } from '../model/caller-part.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import type { PoolSettings } from '../model/desired-state.ts';
import type { GatewayError } from '../model/gateway-error.ts';
import type {
  EraVerdicts,
  KnownCatalogs,
  Ownership,
  ServerNews,
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
import type { StartMarks } from './supervision/start-marks.ts';
import type { CloseReason, OpenTransport } from './transport/transport.ts';

export interface UpstreamSetDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Absent or null: no spans are recorded. */
  readonly tracer?: Tracer | null;
  /** Absent: nothing can be recorded. */
  readonly wires?: Wires;
  readonly events: UpstreamEvents;
  /** Also hears what becomes of servers. */
  readonly news?: ServerNews;
  readonly knownCatalogs: KnownCatalogs;
  readonly eraVerdicts: EraVerdicts;
  readonly upstreamSessions: UpstreamSessions;
  /** Those of HTTP servers, in a cluster. Absent: they are this node's own. */
  readonly sharedUpstreamSessions?: SharedUpstreamSessions | undefined;
  /** The starts in progress, for the next process. Absent: none is kept. */
  readonly startMarks?: StartMarks | null;
  readonly openTransport: OpenTransport;
  /** Which processes this node may serve, in a cluster. Absent: all. */
  readonly ownership?: Ownership | undefined;
  /** Child processes on this node at once. See `UpstreamSet.limit`. */
  readonly maxProcesses: number;
  /** Upper bound of a call that keeps reporting progress. Default 10 min. */
  readonly maxTimeoutMs?: number;
  /** When pooled connections end by themselves. Default: `POOL_DEFAULTS`. */
  readonly pool?: PoolSettings;
  /** Whether the client of this session had a stream open and has none any more. Default: of none is that known. */
  readonly clientGone?: (sessionId: string) => boolean;
  /** `clientInfo` presented where no client is behind a connection; JSON text. */
  readonly clientInfo?: string;
  readonly times?: Partial<UpstreamTimes>;
  /** Child processes that start at once, one of them for a call. Default: the number of processors, and three. */
  readonly startsAtOnce?: number;
  /** A server was listed; no client is shown the catalog before this resolves. Never rejects. Default: at once. */
  readonly inspect?: (catalog: ServerCatalog) => Promise<void> | null;
  /** Default: nothing is known of them. */
  readonly surroundings?: LaunchSurroundings;
  /** Called before the state becomes `auth_required`: what the hook registers is there when the event comes (S3.5). */
  readonly beforeAuthRequired?: (status: ServerStatus, challenge: AuthChallenge) => void;
}

/** Limits of this node that the operator may change while it runs. */
export interface NodeLimits {
  /** Child processes at once, over all servers. */
  maxProcesses: number;
  /** Upper bound of a call that keeps reporting progress. */
  maxTimeoutMs: number;
  pool: PoolSettings;
}

/** What of the gateway's own surroundings a start depends on. */
export interface LaunchSurroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly inContainer: boolean;
  /** Whether a process listens where a server's URL points (S2.26). Never rejects. Default: not checked. */
  readonly reachable?: (url: string) => Promise<boolean>;
}

/** S3.3 */
export const DEFAULT_REMOTE_TIMEOUT_MS = 30_000;

export interface UpstreamTimes {
  /** A start, from spawning to the end of the handshake. */
  readonly startupMs: number;
  /** The same for a command that fetches its program first. `npx` that is ended while it installs a package leaves it broken. */
  readonly fetchingStartupMs: number;
  /** The same for a server behind a URL (S3.3), where nothing has to be fetched first. */
  readonly remoteStartupMs: number;
  /** Silence on `server/discover` after which `initialize` is sent as well; at least 5 s behind a URL. */
  readonly probeSilenceMs: number;
  /** An unresponsive server's time for an answer to a ping (F05). */
  readonly pingMs: number;
  /** What is in flight on a replaced or stopping server gets so long to finish. */
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

/** A connection that the pool closed of its own accord, and why: `room` is for another client's connection. */
export interface Swept {
  readonly want: WantedConnection;
  readonly connection: Connection;
  readonly why: 'idle' | 'errors' | 'room' | 'closed';
  /** Its HTTP session is left to its server; the next connection under the key goes on with it. */
  readonly resumable: boolean;
}

/** What the parts of one server's running side report. Implemented by `UpstreamParts`. Handlers do not throw. */
export interface PartEvents extends ConnectionOwner<Connection> {
  /** It was given up before it was negotiated. */
  abandoned(connection: Connection): void;
  /** The nodes were apart, and another one's session has replaced this one's: it is of no use any more. */
  superseded(connection: Connection): void;
  /** What the server kept for the session of such a connection is gone. */
  stateLost(of: { readonly tenancy: Tenancy }): void;
  /** A connection has got its owner. */
  adopted(connection: Connection, want: WantedConnection): void;
  /** The pool closed a connection whose owner may want another. */
  swept(swept: Swept): void;
  /** The connection under this key has ended, and its owner did not ask for that. */
  ended(key: string): void;
  /** Ends a connection that is of no use any more, as if it had ended by itself. */
  replace(connection: Connection, error: GatewayError, how: CloseReason): void;
  /** The server is unhealthy for this reason, or healthy again (null). */
  healthTurned(reason: string | null): void;
  /** What is observed of the server has changed. */
  changed(): void;
  /** A restart that was asked for begins or ends (S3.10); `reason` says why it failed. */
  recovery(step: RecoveryStep, reason: string | null): void;
  /** A list was read; `lists` differ from before. `key`: only clients of this connection see them. */
  listed(fingerprint: string, lists: readonly ListKind[], key: string | null): void;
}

/** An HTTP server gets at least so long to answer the probe, because `initialize` begins a session there. */
const REMOTE_SILENCE_MS = 5_000;

/** What all parts of the running side of one server share: its definition, what the node gives to it, where they report. */
export class ServerContext {
  /** The definition in force. */
  server: Server;
  readonly deps: UpstreamSetDeps;
  readonly limits: Readonly<NodeLimits>;
  readonly events: PartEvents;
  readonly logger: Logger;
  readonly times: UpstreamTimes;
  /** The server lives and ends on this machine. */
  readonly local: boolean;
  /** Presented where no client is behind a connection. */
  readonly neutral: ClientProfile;
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
    this.neutral = this.seen(placeholderClient(deps.clientInfo ?? null));
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

  /** The client as this side of the server takes it: where callers are told apart, clients of others are of another kind. */
  seen(client: ClientProfile): ClientProfile {
    const { caller } = this.server;
    if (caller === undefined) return client;
    let seen = this.#seen.get(client);
    if (seen === undefined) this.#seen.set(client, (seen = { ...client, fingerprint: kindOf(client, caller.digest) }));
    return seen;
  }

  /** It is a child process of this node, and counts against the limits. */
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

/** What is reached by a URL is there or is not: nothing has to be fetched before it starts (S3.3). */
function remoteTimes(times: UpstreamTimes): UpstreamTimes {
  const probeSilenceMs = Math.max(times.probeSilenceMs, REMOTE_SILENCE_MS);
  return { ...times, probeSilenceMs, startupMs: Math.min(times.startupMs, times.remoteStartupMs) };
}
