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

/** The caller and its conversation. By default the program itself, which may use everything. */
export interface AsAgent {
  /** Name of an agent; it sees and reaches only its allowed servers (S2.28). */
  readonly agent?: string;
  /**
   * The conversation of the call (S1.16): calls of one session share connections and the state of processes. Either the id of
   * `handleInitialize` or of `sessions`, whose client the servers then see, or any other text.
   */
  readonly session?: string;
}

/** A tool as clients of the gateway see it. */
export interface GatewayTool {
  /** The exposed name, at most 64 characters of A-Z a-z 0-9 _ - (S2.2). */
  readonly name: string;
  readonly server: string;
  /** The name of the tool at its server. */
  readonly tool: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: mcp.OpenObject;
  /** The complete definition of its server. */
  readonly definition: mcp.Tool;
  /** The definition as text, byte for byte. */
  readonly raw: string;
}

/** The status of a server, in the keys of S2.24 and further ones. A copy. Holds no secret. */
export type GatewayServerStatus = StatusView;

export interface GatewayEvents {
  /** State, reason or counters of a server that runs at this node changed; null: it is no longer registered here. */
  serverChanged: (name: string, status: GatewayServerStatus | null) => void;
  /**
   * The tools of a server changed, or the server went down or is up again (S4.11). `tools()` and the lists of clients keep the
   * tools of a server that is down.
   */
  toolsChanged: (server: string) => void;
  /** A requested restart begins or ends; `reason` says why it failed. */
  recovery: (name: string, step: RecoveryStep, reason: string | null) => void;
  /** The gateway leaves out an item of a list, because clients could not use the list with it; once per run of the server. */
  listItemInvalid: (name: string, invalid: InvalidItem) => void;
  /**
   * A server asks for a login of the principal, or (null) of the one that all callers share. `advice`: the command for it; null
   * once the server has accepted the credential.
   */
  loginNeeded: (server: string, principal: string | null, advice: string | null) => void;
  /**
   * A condition that needs an operator began (`reason`) or ended (null): a server is down for a minute or until it is corrected,
   * asks for a login, or has definitions to approve; a node, the bus or the store is lost; the configuration cannot be read;
   * disk, memory or a limit runs out. `server`: null for the gateway itself.
   */
  condition: (condition: ConditionName, server: string | null, reason: string | null) => void;
  /**
   * An operator drains this node of a cluster (`trunkline drain`). The node drains and closes by itself, within half a minute;
   * `Gateway.closed` resolves when it has ended. It waits for calls that the program still makes.
   */
  drainAsked: () => void;
}

export interface GatewayLogins {
  /** The credentials that the gateway holds, without their tokens. */
  list(): Promise<readonly CredentialView[]>;
  /**
   * Begins a login: a browser must open `url` within ten minutes and returns to `redirectUri`, an address of the program; null
   * for a login with a user code (RFC 8628). Rejects with INVALID_REQUEST if the server takes no login. `principal`, such as
   * `agent:<name>`: the owner of the credential if each caller has its own; by default the operator.
   */
  begin(server: string, redirectUri: string | null, principal?: string | null): Promise<StartedLogin>;
  /** Completes a login with the URL to which the browser returned, and starts the server. */
  finish(url: string): Promise<CredentialView>;
  /** Resolves when the login with this id has succeeded; with a user code, polls the authorization server meanwhile. */
  ended(id: string): Promise<CredentialView>;
  /** Revokes and deletes the credential, and ends its connections. False if there was none. */
  revoke(server: string, principal?: string | null): Promise<boolean>;
}

export interface Listening {
  readonly mcpUrl: string;
  readonly controlUrl: string;
  /** Bearer token of the control API. */
  readonly controlToken: string;
}

/**
 * A gateway inside this program (S2.25): what `trunkline` runs, without a process or a port of its own. Methods that ask
 * servers reject with GatewayError (NOT_SENT, UNKNOWN, REFUSED; see docs/errors.md), or with ServerError if the server
 * answered with a JSON-RPC error. A program may have several gateways.
 *
 * It must be closed, by `close` or `await using`: until then it may own processes.
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
  /** Resolves when the gateway has ended, because it was closed or an operator drained it. Never rejects. */
  readonly closed: Promise<void>;

  /**
   * All servers, also those of other nodes of a cluster, sorted by name; failed ones with the reason (S2.26). The status of a
   * server at another node has no connections and no last launch.
   */
  servers(): readonly GatewayServerStatus[];
  /** Sorted names of the servers that should run here (S0.16). */
  activeServers(): readonly string[];
  /** null if there is no server of that name, or while no node runs the singleton. */
  server(name: string): GatewayServerStatus | null;
  /** The capabilities of the server from its last handshake; null before the first. A copy. */
  capabilities(name: string): mcp.Capabilities | null;
  /** One server as a client; null if there is none of that name (S2.5). */
  client(name: string): AgentClient | null;
  /**
   * Resolves when the named servers, of any node, or all eager servers of this gateway, are up and listed or have failed; at
   * the latest after `timeoutMs` (default 60 000). Never rejects; the statuses show failures.
   */
  ready(options?: {
    readonly servers?: readonly string[];
    readonly timeoutMs?: number;
  }): Promise<readonly GatewayServerStatus[]>;

  /** All tools, in the order that clients get. Waits a moment for servers that were never listed. */
  tools(options?: AsAgent): Promise<readonly GatewayTool[]>;
  /**
   * Calls a tool by its exposed name, or by server and name. `raw` of the answer is the result as the server wrote it; a
   * failure that the tool reports is `isError`, not a rejection.
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
   * Adds a server (S2.26). Resolves with its status when it is up and listed, or when its first start has failed: it then
   * stays, with the reason, and is retried. A singleton may run at another node. Rejects with ConfigError for an invalid
   * definition, and with GatewayError: INVALID_PARAMS for a name that is taken here or confusable with another, CANCELLED if
   * it is unregistered meanwhile, NOT_SENT if no node has started a singleton within a minute; it stays registered.
   */
  registerServer(name: string, definition: ServerDefinition): Promise<GatewayServerStatus>;
  /**
   * As `registerServer`, but replaces a server of that name, also a configured one (S0.13), without a gap: the new one starts
   * and takes over, and the old one finishes its calls. An equal definition changes nothing.
   */
  startServer(name: string, definition: ServerDefinition): Promise<GatewayServerStatus>;
  /**
   * Removes a server, also a configured one (S2.27): its tools are gone at once, calls in flight finish, then it stops (S0.14).
   * False if there is none of that name.
   */
  unregisterServer(name: string): Promise<boolean>;
  /**
   * Removes all servers (S0.15): calls in flight finish, or are cancelled after half a minute. Resolves when no process is
   * left; `close` does this too.
   */
  unregisterServers(): Promise<void>;
  /**
   * Sets the timeout of a server's calls in seconds (S4.14); 0 or less: 60 s. Applies from the next call on, survives reloads
   * of the configuration, and may be set before the server is registered. A timeout of a tool takes precedence.
   */
  setTimeout(name: string, seconds: number): Promise<void>;
  /**
   * Stops and starts a server at every node that runs it; resolves with its status when it is up or has failed. Rejects with
   * GatewayError if it is suspended or disabled, if this gateway stops, or if a node could not restart it; the other nodes have.
   */
  restart(name: string): Promise<GatewayServerStatus>;

  /**
   * Stops the server at this node (S3.8): its processes end, and calls end NOT_SENT until `restart`. Resolves when the
   * processes have ended.
   */
  stopServer(name: string): Promise<GatewayServerStatus>;
  /** Stops the server until `resumeServer`; neither a changed definition nor a restart starts it. */
  suspendServer(name: string): Promise<GatewayServerStatus>;
  /** Starts a suspended server; resolves with its status when it is up or its start has failed. */
  resumeServer(name: string): Promise<GatewayServerStatus>;
  /**
   * Closes one pooled connection, named as in `ConnectionStatus` (`server`, and `key` as `session`): its process ends, and its
   * calls in flight end UNKNOWN. The next call of its session opens another one. False if there is none.
   */
  closeConnection(connection: ConnectionKey): boolean;

  /** Logins at servers that ask for one. All methods reject with GatewayError. */
  readonly logins: GatewayLogins;

  /**
   * Sets which servers an agent may use (S2.28). An agent that was never registered may use all, an empty list means none.
   * With a key (at least 16 characters), the agent may connect over HTTP too; callers without a key then may not by default,
   * even after the last agent is unregistered. Without one, an agent keeps the key that it has, also one of the configuration.
   * Open connections of the agent get the new rights; a new key ends the streams that the old one opened.
   */
  registerAgent(name: string, servers: readonly string[], options?: { readonly key?: string }): Promise<void>;
  /** Ends the agent's connections and its key; one of the configuration has its rights of there again. False if there was none. */
  unregisterAgent(name: string): Promise<boolean>;
  /** null means all servers (S2.28). */
  allowedServers(agent: string): readonly string[] | null;

  /** Opens a session of the program as `initialize` over HTTP does, and returns its id with the answer (S2.29). */
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
   * Answers as over HTTP to clients of the stateful revisions (S2.31): a failure of the gateway is an `isError` result with
   * text; a JSON-RPC error of the server rejects with ServerError.
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
   * Returns the client's end of a new connection to the gateway in this process, for an MCP SDK `Client`: to all servers, or
   * to one under its own names. Servers may ask such a client (sampling, elicitation, roots).
   */
  connect(options?: AsAgent & { readonly server?: string }): SdkTransport;

  /**
   * Opens the MCP listener and the control listener, once. Rejects with ListenError, or with OpenError if other machines could
   * connect without keys and TLS; may then be called again.
   */
  listen(address?: ListenAddress): Promise<Listening>;
  /**
   * Serves the requests of an HTTP server of the program (S2.34, S2.36), with the paths and checks of `listen`: `/mcp`,
   * `/servers/{name}/mcp`, `/sse`, `/message` and the probes. That server handles encryption; `listen.allowedHosts` must name
   * hosts other than loopback and `listen.host`. The program must not read the request before.
   */
  readonly handler: (request: IncomingMessage, response: ServerResponse) => void;
  /** The open sessions of HTTP+SSE (S2.36). */
  readonly sse: {
    readonly sessionCount: number;
    /** Sends a notification to each session; returns their number. */
    broadcast(method: string, params?: mcp.OpenObject): number;
  };

  /** Reads the files of the configuration again. False if they are invalid; the old configuration then stays in force. */
  reload(): Promise<boolean>;
  /** Returns a function that ends the subscription. */
  on<E extends keyof GatewayEvents>(event: E, listener: GatewayEvents[E]): () => void;
  /** Sets the receiver of the log (S2.25); null is ignored. */
  setLogger(sink: LogSink | null): void;
  /**
   * Ends the gateway: cancels calls in flight, or gives them `drainMs` to finish, stops servers, and writes state. Resolves
   * when it has ended. Idempotent.
   */
  close(options?: { readonly drainMs?: number }): Promise<void>;
}
