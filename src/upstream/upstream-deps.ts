import type { Clock } from '../model/clock.ts';
import type { PoolSettings } from '../model/desired-state.ts';
import type {
  EraVerdicts,
  KnownCatalogs,
  Ownership,
  ServerNews,
  UpstreamEvents,
  UpstreamSessions,
} from '../model/ports.ts';
import type { Random } from '../model/random.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import type { AuthChallenge, ServerStatus } from '../model/server-state.ts';
import type { SharedUpstreamSessions } from '../model/shared-upstream-sessions.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { StartMarks } from './supervision/start-marks.ts';
import type { OpenTransport } from './transport/transport.ts';

export interface UpstreamSetDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Metrics;
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
  /** Whether a process listens where a server's URL points (S2.26). Never rejects. Default: not checked. */
  readonly reachable?: (url: string) => Promise<boolean>;
  /** For reports of starts that failed. Default: nothing is known of them. */
  readonly surroundings?: LaunchSurroundings;
  /**
   * Called with the present status and definition of a server that asks for credentials, before its state becomes
   * `auth_required`: what the hook registers is there when the event comes (S3.5).
   */
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
  /**
   * How long a server may be silent on `server/discover` before it is asked in the old way as well; at least 5 s where it is
   * reached by a URL.
   */
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
