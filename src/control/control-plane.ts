import type { Upstreams } from '../model/ports.ts';
import type { RunTimeServers } from '../registry/run-time-servers.ts';
import type { Journal } from '../telemetry/journal.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { ClusterPlane } from './cluster-plane.ts';
import type { DriftPlane } from './drift-plane.ts';

/** A client session as people see it; the id itself is a secret and is shown nowhere. */
export interface SessionView {
  /** Short digest of the session id: names the session in paths and logs. */
  readonly label: string;
  readonly principal: string;
  readonly endpoint: string;
  readonly revision: string;
  readonly clientInfo: unknown;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly lastSeenAt: string;
}

/** A tool as clients of `/mcp` see it. */
export interface ToolView {
  readonly exposedName: string;
  readonly server: string;
  readonly name: string;
  /** The definition as the server wrote it, JSON text. */
  readonly definition: string;
}

export interface GatewayFacts {
  readonly version: string;
  readonly pid: number;
  readonly startedAt: string;
  readonly mcpUrl: string;
  readonly controlUrl: string;
  readonly files: readonly string[];
  /** Increases with every change of the desired state. */
  readonly configVersion: number;
  /** Server processes on this node, and how many there may be. */
  readonly processes: { readonly running: number; readonly limit: number };
  /** What was wrong with the last reading of the configuration, rendered; null while it is in effect. */
  readonly configProblem: string | null;
  /** What should run and does not, or could not be read: of the files, of the store. Empty while all is well. */
  readonly desiredProblems: readonly string[];
}

/** What was decided about a server, and where. */
export interface DesiredView {
  readonly source: 'file' | 'store' | 'temporary' | 'program';
  readonly suspended: boolean;
  /** `file:line` for servers of files. */
  readonly origin: string | null;
  /** Of stored servers: what `changeServer` and `removeServer` may demand. */
  readonly revision: number | null;
  /** ISO 8601; null for what has no such end. */
  readonly expiresAt: string | null;
  /** Label of the session it ends with. */
  readonly session: string | null;
}

/** Whether calls can be accepted; independent of single servers. */
export interface Readiness {
  readonly ready: boolean;
  /** Why not; empty when ready. */
  readonly reason: string;
}

/** What the control API works on. Assembled by `app/`. */
export interface ControlPlane {
  readonly upstreams: Upstreams;
  readonly metrics: Metrics;
  /** null for a lone gateway. */
  readonly cluster: ClusterPlane | null;
  readonly drift: DriftPlane;
  /** What becomes of servers. Topics are their names. */
  readonly events: Journal;
  /** The log of each server. Topics are their names. */
  readonly logs: Journal;
  readonly runTime: RunTimeServers;
  /** null for a server that is no longer desired. */
  desired(server: string): DesiredView | null;
  /** The id of the open session with this label. */
  sessionId(label: string): Promise<string | null>;
  /** Wall clock. */
  wall(): number;
  pause(ms: number): Promise<void>;
  facts(): GatewayFacts;
  readiness(): Readiness;
  sessions(): Promise<readonly SessionView[]>;
  /** Ends the session with this label; false when there is none. */
  endSession(label: string): Promise<boolean>;
  tools(server: string | null): Promise<readonly ToolView[]>;
  /** Calls a tool as the operator. `argumentsJson` is one JSON object; the answer is JSON text with `outcome`. */
  callTool(server: string, tool: string, argumentsJson: Buffer): Promise<Buffer>;
}
