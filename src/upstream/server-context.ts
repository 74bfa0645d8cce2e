import type { ClientProfile } from '../model/client-profile.ts';
import { isOwnProcess, type Server } from '../model/server.ts';
import type { Logger } from '../telemetry/logger.ts';
import { standIn } from './connection/session-key.ts';
import { fetchesProgram } from './process/command.ts';
import type { NodeLimits, UpstreamSetDeps, UpstreamTimes } from './upstream-deps.ts';

const REMOTE_SILENCE_MS = 5_000;

/** What all parts of the running side of one server share: its definition, and what the node gives to it. */
export class ServerContext {
  /** The definition in force. */
  server: Server;
  readonly deps: UpstreamSetDeps;
  readonly limits: Readonly<NodeLimits>;
  readonly logger: Logger;
  readonly times: UpstreamTimes;
  /** The server lives and ends on this machine. */
  readonly local: boolean;
  /** Presented where no client is behind a connection. */
  readonly neutral: ClientProfile;

  constructor(server: Server, deps: UpstreamSetDeps, limits: Readonly<NodeLimits>, times: UpstreamTimes) {
    this.server = server;
    this.deps = deps;
    this.limits = limits;
    this.logger = deps.logger.child({ server: server.name });
    this.local = !('url' in server.transport);
    this.neutral = standIn(deps.clientInfo ?? null);
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

  /** It is a child process of this node, and counts against the limits. */
  get ownProcess(): boolean {
    return isOwnProcess(this.server);
  }

  /** Whether the client of this session had a stream open and has none any more. */
  clientGone(sessionId: string): boolean {
    return this.deps.clientGone?.(sessionId) ?? false;
  }
}

/**
 * What is reached by a URL is there or is not: nothing has to be fetched before it starts (S3.3). It is given longer to
 * answer the probe, because `initialize` begins a session there.
 */
function remoteTimes(times: UpstreamTimes): UpstreamTimes {
  const probeSilenceMs = Math.max(times.probeSilenceMs, REMOTE_SILENCE_MS);
  return { ...times, probeSilenceMs, startupMs: Math.min(times.startupMs, times.remoteStartupMs) };
}
