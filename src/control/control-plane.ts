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

/** `definition`: JSON text, as the server wrote it. */
export type ToolView = Omit<ListedTool, 'definition'> & { readonly definition: string };

/** The tools of all servers, for people. Implemented by `app/`. */
export interface ToolsPlane {
  /** `server`: null for all. `waitMs`: a shorter wait for servers that were never listed than the configured one. */
  list(
    server: string | null,
    waitMs?: number,
  ): Promise<{ readonly tools: readonly ToolView[]; readonly notOffered: readonly HiddenTool[] }>;
  /** The tools as clients show them that call the gateway `gateway`. `client`: null for all; an unknown one yields none. */
  listForClients(gateway: string, client: string | null): Promise<readonly ShownClient[]>;
}

/** Pins and drift. Implemented by `app/`. */
export interface DriftPlane {
  report(server: string): Promise<DriftReport>;
  summary(server: string): DriftSummary;
  /** Resolves once the decision is durable and in force. Rejects with RunTimeProblem, as does `block`. */
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

/** The rights of callers under the call policies. Implemented by `app/`. */
export interface AccessPlane {
  table(): AccessTable;
  /** What would happen to a call; null for an unknown principal. */
  explain(principal: string, server: string, tool: string): CallExplanation | null;
}

/** The configuration of this node. Implemented by `app/`. */
export interface ConfigurationPlane {
  /** The fault of the definition in the file, if the server runs an earlier one; otherwise null. */
  refused(server: string): string | null;
  view(): ConfigurationView;
  /** The changes that reading the files now would make. Changes nothing. */
  plan(): Promise<ConfigurationPlan>;
  /** Reads the files now and applies what is valid. */
  reload(): Promise<ReloadView>;
}

/** Tasks of all callers. Implemented by `app/`. */
export interface TaskPlane {
  list(): readonly TaskView[];
  /** null for an unknown key. Rejects with GatewayError if the task has ended or cannot be cancelled. */
  cancel(key: string): Promise<TaskView | null>;
}

/** Sends one step as JSON text. For a client that does not keep up, steps that are not `needed` may be dropped. */
export type SendStep = (json: string, needed?: boolean) => void;

/** Calls in the role of a client. Implemented by `app/`; the control API validates the bodies. */
export interface PlaygroundPlane {
  /** Passes each step to `sendStep` but the last, with which it resolves, as JSON text. Never rejects. */
  run(body: Buffer, gone: AbortSignal, sendStep: SendStep): Promise<string>;
  /** Whether the call waited for this answer; null if there is no such call. */
  answer(run: string, body: Buffer): boolean | null;
}

/** The cluster. Implemented by `app/`; a lone gateway has none. */
export interface ClusterPlane {
  nodes(): readonly NodeEntry[];
  conflicts(): readonly DefinitionConflict[];
  owned(): readonly OwnedView[];
  shared(): readonly SharedPart[];
  /** Drains a node and makes it exit; false if there is no such node. Rejects if it does not answer. */
  drain(node: string): Promise<boolean>;
  /** Names of the other nodes. */
  others(): readonly string[];
  /** Nodes that were lost within the last hour without leaving. */
  silent(): readonly AbsentNode[];
  /** A node that has the server if this one does not; otherwise null. */
  holder(server: string): string | null;
  /** Runs an operation at another node; `onEvent` gets the events of a stream. */
  ask(node: string, request: ForwardedRequest, onEvent?: (id: string | null, json: Buffer) => void): NodeRequest;
}

/** A node that does not answer; `lostAt` is wall-clock time. */
export interface AbsentNode {
  readonly node: string;
  readonly lostAt: number;
}

/** Request of one node to another on behalf of the operator. It never carries the right to run programs. */
export interface ForwardedRequest {
  readonly operation: string;
  readonly name: string;
  readonly query: string;
  readonly body: string;
}

export interface NodeRequest {
  /** Rejects with GatewayError if the node does not answer. */
  readonly answer: Promise<{ readonly status: number; readonly body: string | Buffer }>;
  cancel(): void;
  /** Pauses the events until `resume`. */
  pause(): void;
  resume(): void;
}

/** Limits of a tool call, and the receiver of its progress. */
export interface CallLimits {
  /** Cancels the call, at its server too. */
  readonly signal: AbortSignal;
  /** Shorter than the server's own limit, which holds in any case. */
  readonly timeoutMs?: number;
  readonly onProgress?: (progress: object) => void;
}

/** What the control API operates on. Assembled by `app/`. */
export interface ControlPlane {
  readonly upstreams: Upstreams;
  /** Statuses of the servers that this node has. */
  ownStatuses(): readonly ServerStatus[];
  readonly clock: Clock;
  /** null for a lone gateway. */
  readonly cluster: ClusterPlane | null;
  /** Resource usage of this node's process groups, by group; omits groups that it cannot read. */
  readonly usages: { of(groups: ReadonlySet<number>): Promise<ReadonlyMap<number, ProcessUsage>> };
  readonly drift: DriftPlane;
  readonly access: AccessPlane;
  readonly tasks: TaskPlane;
  readonly configuration: ConfigurationPlane;
  /** Events of servers. Topics are their names. */
  readonly events: Journal;
  /** The log of each server. Topics are their names. */
  readonly logs: Journal;
  /** The last requests of clients. */
  readonly calls: CallLog;
  readonly rates: CallRates;
  /** Console logins. */
  readonly console: ConsoleLogins;
  readonly runTime: RunTimeServers;
  readonly offered: Pick<OfferedServers, 'read'>;
  /** The registry in which servers are found by name. */
  mcpRegistry(): Promise<McpRegistry>;
  readonly recorder: Recorder;
  readonly logins: Logins;
  readonly secrets: SecretChanges;
  /** How clients connect, as this agent or as the one that may use most; null for an unknown agent. */
  clients(agent: string | null): ClientLinks | null;
  /** The steps of the last sign-in at the server. */
  signIn(server: Server): Promise<SignInView>;
  /** Checks the steps of a sign-in at the server now. Rejects with GatewayError if the server takes no tokens. */
  checkSignIn(server: Server): Promise<SignInCheck>;
  readonly tools: ToolsPlane;
  readonly playground: PlaygroundPlane;
  readonly appFrames: AppFrames;
  /** Redirect URI of logins that end at this gateway; null if browsers cannot reach it. */
  loginCallback(): string | null;
  /** null for a name that is not desired. */
  server(name: string): Server | null;
  /** null for a server that is no longer desired. */
  desired(server: string): DesiredView | null;
  /** The values of the definition, then defaults; empty for a server without a text definition. */
  writtenValues(server: Server): readonly WrittenValueView[];
  /** The id of the open session with this label. */
  sessionId(label: string): Promise<string | null>;
  facts(): GatewayFacts;
  readiness(): Readiness;
  /** Stops this gateway gracefully, or without waiting with `now`; false for an embedded gateway, which its program stops. */
  stop(now: boolean): boolean;
  sessions(): Promise<SessionsView>;
  /** Number of client sessions in this node's memory. */
  openSessions(): number;
  /** Ends the session with this label; false if there is none. */
  endSession(label: string): Promise<boolean>;
  /** Replays a recording against a server of this gateway until `gone`; a text says why that is impossible. */
  replay(jsonl: string, options: ReplayOptions, gone: AbortSignal): Promise<Replay | string>;
  /** The text of a test that calls the server at this gateway's endpoint, or the problem. */
  replayTest(jsonl: string, options: ReplayOptions): { readonly text: string } | { readonly problem: string };
  /** Calls a tool as the operator. `argumentsJson` is one JSON object; the answer is JSON text with `outcome`. */
  callTool(server: string, tool: string, argumentsJson: Buffer, options: CallLimits): Promise<Buffer>;
}
