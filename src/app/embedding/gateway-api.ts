import type { IncomingMessage, ServerResponse } from 'node:http';
import type { StatusView } from '../../control/server-view.ts';
import type { SessionManager } from '../../downstream/session/session-manager.ts';
import type { ConditionName } from '../../model/conditions.ts';
import type { CredentialView, StartedLogin } from '../../model/credentials.ts';
import type { InvalidItem } from '../../model/server-catalog.ts';
import type { RecoveryStep } from '../../model/server-state.ts';
import type { ConnectionKey } from '../../upstream/connection/session-key.ts';
import type { AgentClient } from './gateway-client.ts';
import type { ServerDefinition } from './gateway-options.ts';
import type { LogSink } from './log-outlet.ts';
import type * as mcp from './mcp-types.ts';
import type { SdkTransport } from './object-transport.ts';
import type { CallOptions } from './operator-calls.ts';
import type { ListenAddress } from './overlay.ts';
import type { Router } from './router.ts';

/** Who asks, and in which conversation. Left out, it is the program itself, which may use everything. */
export interface AsAgent {
  /** Name of an agent; it sees and reaches its allowed servers only (S2.28). */
  readonly agent?: string;
  /**
   * The conversation that the call belongs to (S1.16): calls of one session share connections and the state of processes,
   * others do not. The id of `handleInitialize` or of `sessions`, whose client the servers then see, or a text of your own.
   */
  readonly session?: string;
}

/** A tool as clients of the gateway see it. */
export interface GatewayTool {
  /** The exposed name, at most 64 characters of A-Z a-z 0-9 _ - (S2.2). */
  readonly name: string;
  readonly server: string;
  /** The server's own name for it. */
  readonly tool: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: mcp.OpenObject;
  /** Everything its server says of it. */
  readonly definition: mcp.Tool;
  /** The same as text, byte for byte. */
  readonly raw: string;
}

/** The status of a server, in the keys of S2.24 and further ones. A copy. Holds no secret. */
export type GatewayServerStatus = StatusView;

export interface GatewayEvents {
  /** State, reason or counters of a server that runs at this node changed; null: it is no longer registered here. */
  serverChanged: (name: string, status: GatewayServerStatus | null) => void;
  /** The tools of a server are others than before, gone because it is down, or back because it is up again (S4.11). */
  toolsChanged: (server: string) => void;
  /** A restart that was asked for begins or ends; `reason` says why it failed. */
  recovery: (name: string, step: RecoveryStep, reason: string | null) => void;
  /** An item of the server's lists is left out, because clients could not use a list with it; once in each run of the server. */
  listItemInvalid: (name: string, invalid: InvalidItem) => void;
  /**
   * A server asks for a login: of the principal, or (null) of the one that all callers share. `advice`: the command that does
   * it; null once the server has taken the credential.
   */
  loginNeeded: (server: string, principal: string | null, advice: string | null) => void;
  /**
   * A condition that needs an operator has begun (`reason`), or is over (null): a server is down for a minute or for good, asks
   * for a login or lists what has to be approved; a node, the bus or the store is gone; disk, memory or a limit runs out.
   * `server`: null for the gateway itself.
   */
  condition: (condition: ConditionName, server: string | null, reason: string | null) => void;
  /**
   * Somebody has sent this node of a cluster home (`trunkline drain`). It does by itself what `close` with a drain does, and
   * takes half a minute at most; `Gateway.closed` tells when it has ended. Calls that the program still makes are waited for.
   */
  drainAsked: () => void;
}

export interface GatewayLogins {
  /** The credentials that the gateway holds, without their tokens. */
  list(): Promise<readonly CredentialView[]>;
  /**
   * Begins a login: a browser has to open `url` within ten minutes and comes back to `redirectUri`, an address of the
   * program; null for a login with a user code (RFC 8628). INVALID_REQUEST for a server that takes no login.
   * `principal`, as `agent:<name>`: whose credential it will be where each caller has its own; the operator's by default.
   */
  begin(server: string, redirectUri: string | null, principal?: string | null): Promise<StartedLogin>;
  /** Ends a login with the address that the browser came back to. The server is started then. */
  finish(url: string): Promise<CredentialView>;
  /** Resolves when the login of this id has ended well; asks the authorization server meanwhile where there is a user code. */
  ended(id: string): Promise<CredentialView>;
  /** Revokes and forgets the credential; its connections end. False where there was none. */
  revoke(server: string, principal?: string | null): Promise<boolean>;
}

export interface Listening {
  readonly mcpUrl: string;
  readonly controlUrl: string;
  /** Bearer token of the control API. */
  readonly controlToken: string;
}

/**
 * A gateway inside this program (S2.25): what `trunkline` runs, without a process or a port of its own. All methods
 * that ask servers reject with GatewayError (NOT_SENT, UNKNOWN, REFUSED; see docs/errors.md), or with ServerError where
 * the server itself answered with a JSON-RPC error. Several gateways may live in one program.
 *
 * It has to be closed, by `close` or `await using`: until then it may own processes.
 */
export interface Gateway extends AsyncDisposable {
  /** The gateway's own name and version (S2.13). */
  readonly serverInfo: mcp.ServerInfo;
  /** Sessions of clients (S2.38). */
  readonly sessions: SessionManager;
  /** The servers of this gateway as clients by name, kept up to date (S2.35). */
  readonly router: Router;
  /** Where it listens; null before `listen`. */
  readonly listening: Listening | null;
  /** Resolves when the gateway has ended: it was closed, or drained because somebody asked for that. Never rejects. */
  readonly closed: Promise<void>;

  /**
   * All servers, those of the other nodes of a cluster too, sorted by name; failed ones with the reason (S2.26). Of a server
   * that runs elsewhere what its node tells: no connections, no last launch.
   */
  servers(): readonly GatewayServerStatus[];
  /** Names of the servers that are to run here, sorted (S0.16). */
  activeServers(): readonly string[];
  /** null where there is none of that name, and of a singleton while no node runs it. */
  server(name: string): GatewayServerStatus | null;
  /** What the server said it can do when it was met last; null before that. A copy. */
  capabilities(name: string): mcp.Capabilities | null;
  /** One server as a client; null where there is none of that name (S2.5). */
  client(name: string): AgentClient | null;
  /**
   * Resolves when every server of this gateway's own that starts by itself (or those named, of any node) is up and listed
   * or has failed, at the latest after `timeoutMs` (default 60 000). Never rejects: the statuses tell.
   */
  ready(options?: {
    readonly servers?: readonly string[];
    readonly timeoutMs?: number;
  }): Promise<readonly GatewayServerStatus[]>;

  /** All tools, sorted as clients get them. Waits a moment for servers that were never listed. */
  tools(options?: AsAgent): Promise<readonly GatewayTool[]>;
  /**
   * Calls a tool by its exposed name, or by server and own name. `raw` of the answer is the result to the digit; the
   * server's own failure is `isError`, not a rejection.
   */
  callTool(
    tool: string | { readonly server: string; readonly tool: string },
    args?: mcp.ToolArguments,
    options?: CallOptions & AsAgent,
  ): Promise<mcp.Answer<mcp.ToolCallResult>>;
  listResources(options?: CallOptions & AsAgent): Promise<readonly mcp.Resource[]>;
  listResourceTemplates(options?: CallOptions & AsAgent): Promise<readonly mcp.ResourceTemplate[]>;
  readResource(uri: string, options?: CallOptions & AsAgent): Promise<mcp.Answer<mcp.ReadResourceResult>>;
  listPrompts(options?: CallOptions & AsAgent): Promise<readonly mcp.Prompt[]>;
  getPrompt(
    name: string,
    args?: Readonly<Record<string, string>>,
    options?: CallOptions & AsAgent,
  ): Promise<mcp.Answer<mcp.GetPromptResult>>;
  complete(
    ref: mcp.CompletionReference,
    argument: { readonly name: string; readonly value: string },
    options?: CallOptions & AsAgent,
  ): Promise<mcp.Answer<mcp.CompleteResult>>;

  /**
   * Adds a server (S2.26). Resolves with its status when it is up and listed, or its first start has failed: it then
   * stays, with the reason, and is tried again. A singleton may do so at another node. Rejects with ConfigError for a
   * definition that is none, and with GatewayError: INVALID_PARAMS for a name that is taken here or would be confused with
   * another, CANCELLED when it is unregistered meanwhile, NOT_SENT for a singleton that no node has begun to run within a
   * minute; it stays registered.
   */
  registerServer(name: string, definition: ServerDefinition): Promise<GatewayServerStatus>;
  /**
   * The same, but a server of that name, a configured one too, is replaced (S0.13): the new one is started, takes over,
   * and the one before finishes its calls. There is no moment without one; the same definition changes nothing.
   */
  startServer(name: string, definition: ServerDefinition): Promise<GatewayServerStatus>;
  /**
   * Takes a server away, a configured one too (S2.27): calls in flight finish, then it is stopped and gone (S0.14). Its
   * tools are gone at once. False when there is none of that name.
   */
  unregisterServer(name: string): Promise<boolean>;
  /**
   * The same with all of them at once (S0.15): calls in flight finish, or are cancelled after half a minute. Resolves
   * when no process is left; `close` does it too.
   */
  unregisterServers(): Promise<void>;
  /**
   * Sets the deadline of a server's calls in seconds (S4.14); 0 or less: 60 s. Holds from the next call on, outlives
   * readings of the configuration, and may be said before the server is registered. A tool's own deadline goes before.
   */
  setTimeout(name: string, seconds: number): Promise<void>;
  /**
   * Stops and starts a server at every node that runs it; resolves with its status when it is up or has failed. Rejects with
   * GatewayError where a node could not do that; the others have done it.
   */
  restart(name: string): Promise<GatewayServerStatus>;

  /**
   * Stops the server at this node (S3.8): its processes end, and calls end NOT_SENT until `restart`. Resolves when they
   * have ended.
   */
  stopServer(name: string): Promise<GatewayServerStatus>;
  /** As `stopServer`, until `resumeServer`: a changed definition or a restart does not start it either. */
  suspendServer(name: string): Promise<GatewayServerStatus>;
  /** Starts a suspended server; resolves with its status when it is up or its start has failed. */
  resumeServer(name: string): Promise<GatewayServerStatus>;
  /**
   * Closes one pooled connection, named as in `ConnectionStatus` (`server`, and `key` as `session`): its process ends,
   * and calls in flight on it end UNKNOWN. Its session gets another one with its next call. False where there is none.
   */
  closeConnection(connection: ConnectionKey): boolean;

  /** Logins at servers that ask for one. All reject with GatewayError. */
  readonly logins: GatewayLogins;

  /**
   * Says which servers an agent may use (S2.28). An agent that was never registered may use all, an empty list means
   * none. With a key (at least 16 characters), the agent may also come in over HTTP, and others may not any more.
   */
  registerAgent(name: string, servers: readonly string[], options?: { readonly key?: string }): Promise<void>;
  /** False when there was none of that name. */
  unregisterAgent(name: string): Promise<boolean>;
  /** null: all (S2.28). */
  allowedServers(agent: string): readonly string[] | null;

  /** Opens a session as `initialize` over HTTP does, and returns its id with the answer (S2.29). */
  handleInitialize(
    params: mcp.InitializeParams,
  ): Promise<{ readonly sessionId: string; readonly result: mcp.Answer<mcp.InitializeResult> }>;
  /** One page of the aggregated list (S2.30). */
  handleToolsList(params?: { readonly cursor?: string }): Promise<mcp.Answer<mcp.ToolsListResult>>;
  handleToolsListForAgent(
    agent: string,
    params?: { readonly cursor?: string },
  ): Promise<mcp.Answer<mcp.ToolsListResult>>;
  /**
   * As clients of the stateful revisions get it over HTTP (S2.31): a failure of the gateway is an `isError` result in
   * words; a JSON-RPC error of the server itself rejects with ServerError.
   */
  handleToolsCall(
    params: mcp.ToolCallParams,
    options?: CallOptions & Pick<AsAgent, 'session'>,
  ): Promise<mcp.Answer<mcp.ToolCallResult>>;
  handleToolsCallForAgent(
    agent: string,
    params: mcp.ToolCallParams,
    options?: CallOptions & Pick<AsAgent, 'session'>,
  ): Promise<mcp.Answer<mcp.ToolCallResult>>;

  /**
   * The client's end of a new connection to the gateway in this process, for an MCP SDK `Client`: to all servers, or to
   * one under its own names. The servers may ask such a client (sampling, elicitation, roots).
   */
  connect(options?: AsAgent & { readonly server?: string }): SdkTransport;

  /**
   * Opens the MCP listener and the control listener, once. Rejects with ListenError, or OpenError where it would be open
   * to other machines without keys and TLS; may then be tried again.
   */
  listen(address?: ListenAddress): Promise<Listening>;
  /**
   * Serves the requests of an HTTP server of the program's own (S2.34, S2.36), with the paths and checks of `listen`:
   * `/mcp`, `/servers/{name}/mcp`, `/sse`, `/message` and the probes. Encryption is that server's; hosts other than
   * loopback and `listen.host` have to be named in `listen.allowedHosts`. A request may not be read before.
   */
  readonly handler: (request: IncomingMessage, response: ServerResponse) => void;
  /** The open sessions of HTTP+SSE (S2.36). */
  readonly sse: {
    readonly sessionCount: number;
    /** Sends a notification to each of them; returns to how many. */
    broadcast(method: string, params?: mcp.OpenObject): number;
  };

  /** Reads the configuration's files again. True when they were good; otherwise the old ones stay in force. */
  reload(): Promise<boolean>;
  /** Returns what ends the subscription. */
  on<E extends keyof GatewayEvents>(event: E, listener: GatewayEvents[E]): () => void;
  /** From now on the log goes there (S2.25); null is ignored. */
  setLogger(sink: LogSink | null): void;
  /**
   * Ends it: calls in flight are cancelled, or given `drainMs` to finish, servers stop, state is written. Resolves when
   * nothing is left. Idempotent.
   */
  close(options?: { readonly drainMs?: number }): Promise<void>;
}
