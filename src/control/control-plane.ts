import type { McpRegistry } from '../mcp-registry/mcp-registry.ts';
import type { AccessTable, CallExplanation } from '../model/access.ts';
import type { ClientLinks } from '../model/client-links.ts';
import type { Clock } from '../model/clock.ts';
import type { ConfigurationPlan, ConfigurationView, ReloadView } from '../model/configuration.ts';
import type { Logins, SecretChanges } from '../model/credential-ports.ts';
import type { DefinitionName, DriftRecord, DriftReport, DriftSummary } from '../model/drift.ts';
import type { Upstreams } from '../model/ports.ts';
import type { Replay, ReplayOptions } from '../model/recordings.ts';
import type { Server } from '../model/server.ts';
import type { ProcessUsage, ServerStatus } from '../model/server-state.ts';
import type { SignInCheck, SignInView } from '../model/sign-in.ts';
import type { TaskView } from '../model/task-view.ts';
import type { OfferedServers } from '../registry/offered-servers.ts';
import type { RunTimeServers } from '../registry/run-time-servers.ts';
import type { CallLog } from '../telemetry/call-log.ts';
import type { CallRates } from '../telemetry/call-rates.ts';
import type { Journal } from '../telemetry/journal.ts';
import type { Recorder } from '../telemetry/recorder/recorder.ts';
import type { AppFrames } from './app-frames.ts';
import type { ConsoleLogins } from './console-logins.ts';
import type {
  DefinitionConflict,
  DesiredView,
  GatewayFacts,
  NodeEntry,
  OwnedView,
  Readiness,
  SessionsView,
  SharedPart,
  WrittenValueView,
} from './schemas.ts';
import type { HiddenTool, ListedTool, ShownClient } from './tool-schemas.ts';

/** `definition`: as the server wrote it, JSON text. */
export type ToolView = Omit<ListedTool, 'definition'> & { readonly definition: string };

/** The tools of all servers, as people look at them. Implemented by `app/`. */
export interface ToolsPlane {
  /** `server`: null for all. */
  list(
    server: string | null,
  ): Promise<{ readonly tools: readonly ToolView[]; readonly notOffered: readonly HiddenTool[] }>;
  /** As clients show them whose files call the gateway so. `client`: null for all; empty for one that is not known. */
  asClients(gateway: string, client: string | null): Promise<readonly ShownClient[]>;
}

/** Pins and drift, as the control API works on them. Implemented by `app/`. */
export interface DriftPlane {
  report(server: string): Promise<DriftReport>;
  summary(server: string): DriftSummary;
  /** Durable and in force when it resolves. Rejects with RunTimeProblem, and so does `block`. */
  approve(
    server: string,
    decisions: readonly (DefinitionName & { readonly digest: string | null })[],
    by: string,
  ): Promise<void>;
  block(server: string, names: readonly DefinitionName[], by: string): Promise<void>;
  history(
    server: string,
    options: { readonly limit: number; readonly after?: string },
  ): Promise<readonly DriftRecord[]>;
}

/** Who may use what, as the policies of calls decide it. Implemented by `app/`. */
export interface AccessPlane {
  table(): AccessTable;
  /** What would become of a call; null for a principal that is not let in. */
  explain(principal: string, server: string, tool: string): CallExplanation | null;
}

/** The configuration of this node. Implemented by `app/`. */
export interface ConfigurationPlane {
  /** What is wrong with the definition in the file of a server that runs an earlier one; null where it runs that. */
  refused(server: string): string | null;
  view(): ConfigurationView;
  /** What a reading now would change. Changes nothing. */
  plan(): Promise<ConfigurationPlan>;
  /** Reads the files now, and puts in force what is good. */
  reload(): Promise<ReloadView>;
}

/** Tasks of all callers. Implemented by `app/`. */
export interface TaskPlane {
  list(): readonly TaskView[];
  /** null for an unknown key. Rejects with GatewayError where it has ended or cannot be cancelled. */
  cancel(key: string): Promise<TaskView | null>;
}

/** Tells one step as JSON text. A client that does not keep up misses those that are not `needed`. */
export type TellStep = (json: string, needed?: boolean) => void;

/** Calls in the place of clients. Implemented by `app/`; bodies were checked. */
export interface PlaygroundPlane {
  /** `tell` gets each step but the last, with which it resolves, as JSON texts. Never rejects. */
  run(body: Buffer, gone: AbortSignal, tell: TellStep): Promise<string>;
  /** Whether the call waited for this; null where no such call is under way. */
  answer(run: string, body: Buffer): boolean | null;
}

/** The cluster, as the control API works on it. Implemented by `app/`; a lone gateway has none. */
export interface ClusterPlane {
  nodes(): readonly NodeEntry[];
  conflicts(): readonly DefinitionConflict[];
  owned(): readonly OwnedView[];
  shared(): readonly SharedPart[];
  /** Has a node finish its work and end; false when no node has this name. Rejects when it does not answer. */
  drain(node: string): Promise<boolean>;
  /** Names of the other nodes. */
  others(): readonly string[];
  /** Those that were lost within the last hour, without leaving. */
  silent(): readonly AbsentNode[];
  /** A node that has the server, which this one has not; null otherwise. */
  holder(server: string): string | null;
  /** Has another node run an operation; `tell` gets the events of a stream. */
  ask(node: string, request: ForwardedRequest, tell?: (id: string | null, json: Buffer) => void): AskedNode;
}

/** A node that does not answer, since that time of the wall clock. */
export interface AbsentNode {
  readonly node: string;
  readonly lostAt: number;
}

/** What one node asks of another, on behalf of its operator. It never carries the right to run programs. */
export interface ForwardedRequest {
  readonly operation: string;
  readonly name: string;
  readonly query: string;
  readonly body: string;
}

export interface AskedNode {
  /** Rejects with GatewayError where the node does not answer. */
  readonly answer: Promise<{ readonly status: number; readonly body: string | Buffer }>;
  cancel(): void;
  /** It tells nothing more until `resume`. */
  pause(): void;
  resume(): void;
}

/** How long a call of a tool may take, and what is heard of it meanwhile. */
export interface CallLimits {
  /** Cancels it, at its server too. */
  readonly signal: AbortSignal;
  /** Shorter than the server's own limit, which holds in any case. */
  readonly timeoutMs?: number;
  readonly onProgress?: (progress: object) => void;
}

/** What the control API works on. Assembled by `app/`. */
export interface ControlPlane {
  readonly upstreams: Upstreams;
  /** Of the servers that this node has. */
  ownStatuses(): readonly ServerStatus[];
  readonly clock: Clock;
  /** null for a lone gateway. */
  readonly cluster: ClusterPlane | null;
  /** What the process groups of this node use, by group; nothing of those it cannot see. */
  readonly usages: { of(groups: ReadonlySet<number>): Promise<ReadonlyMap<number, ProcessUsage>> };
  readonly drift: DriftPlane;
  readonly access: AccessPlane;
  readonly tasks: TaskPlane;
  readonly configuration: ConfigurationPlane;
  /** What becomes of servers. Topics are their names. */
  readonly events: Journal;
  /** The log of each server. Topics are their names. */
  readonly logs: Journal;
  /** The last requests of clients. */
  readonly calls: CallLog;
  readonly rates: CallRates;
  /** Browsers that are logged in at the console. */
  readonly console: ConsoleLogins;
  readonly runTime: RunTimeServers;
  readonly offered: Pick<OfferedServers, 'read'>;
  /** Where servers are found by name. */
  mcpRegistry(): Promise<McpRegistry>;
  readonly recorder: Recorder;
  readonly logins: Logins;
  readonly secrets: SecretChanges;
  /** How clients are connected, as this agent or as one that may use most; null for an unknown agent. */
  clients(agent: string | null): ClientLinks | null;
  /** How signing in at the server went, step by step. */
  signIn(server: Server): Promise<SignInView>;
  /** What a sign-in at the server would ask, asked now. Rejects with GatewayError where the server takes no tokens. */
  checkSignIn(server: Server): Promise<SignInCheck>;
  readonly tools: ToolsPlane;
  readonly playground: PlaygroundPlane;
  readonly appFrames: AppFrames;
  /** Redirect URI of logins that end at this gateway; null where browsers cannot reach it. */
  loginCallback(): string | null;
  /** null for a name that is not desired. */
  server(name: string): Server | null;
  /** null for a server that is no longer desired. */
  desired(server: string): DesiredView | null;
  /** Of its definition, and defaults; empty where no text defines it. */
  writtenValues(server: Server): readonly WrittenValueView[];
  /** The id of the open session with this label. */
  sessionId(label: string): Promise<string | null>;
  facts(): GatewayFacts;
  readiness(): Readiness;
  /** Ends this gateway in good order, or `now`; false for one that a program has made, which ends it. */
  stop(now: boolean): boolean;
  sessions(): Promise<SessionsView>;
  /** Of clients, that this node has in memory. */
  openSessions(): number;
  /** Ends the session with this label; false when there is none. */
  endSession(label: string): Promise<boolean>;
  /** Replays the text of a recording against a server of this gateway, until `gone`; a text says why that is impossible. */
  replay(jsonl: string, options: ReplayOptions, gone: AbortSignal): Promise<Replay | string>;
  /** The text of a test that asks this gateway for the server as clients do, or the problem. */
  replayTest(jsonl: string, options: ReplayOptions): { readonly text: string } | { readonly problem: string };
  /** Calls a tool as the operator. `argumentsJson` is one JSON object; the answer is JSON text with `outcome`. */
  callTool(server: string, tool: string, argumentsJson: Buffer, options: CallLimits): Promise<Buffer>;
}
