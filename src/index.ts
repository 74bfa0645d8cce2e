/**
 * The public API of the package, for embedding the gateway in a program. test/surface.test.ts pins it.
 *
 * Start with `createGateway`; `Gateway` documents what it can do. Ids such as S2.5 in the documentation are rows of
 * test/e2e/requirements.ts; docs/errors.md describes the errors.
 */

export type { Messenger } from './app/cluster/cluster-connection.ts';
export { type ConnectOptions, connectServer, type ServerClient } from './app/embedding/connect-server.ts';
export type {
  AsAgent,
  Gateway,
  GatewayEvents,
  GatewayLogins,
  GatewayServerStatus,
  GatewayTool,
  Listening,
} from './app/embedding/gateway-api.ts';
export type { AgentClient } from './app/embedding/gateway-client.ts';
export type {
  ConfiguredServer,
  GatewayConfig,
  GatewayOptions,
  NodeOptions,
  RemoteDefinition,
  ServerDefinition,
  ServerStore,
  StdioDefinition,
  StoredServer,
  StorePage,
  TransportType,
} from './app/embedding/gateway-options.ts';
export { type InProcessOptions, InProcessServer, inProcess, inProcessBytes } from './app/embedding/in-process.ts';
export type { LogSink } from './app/embedding/log-outlet.ts';
export type {
  Answer,
  Capabilities,
  ClientInfo,
  CompleteResult,
  CompletionReference,
  Content,
  GetPromptResult,
  Implementation,
  InitializeParams,
  InitializeResult,
  OpenObject,
  Progress,
  Prompt,
  PromptsCapability,
  ReadResourceResult,
  Resource,
  ResourcesCapability,
  ResourceTemplate,
  ServerInfo,
  Tool,
  ToolArguments,
  ToolCallParams,
  ToolCallResult,
  ToolsCapability,
  ToolsListResult,
} from './app/embedding/mcp-types.ts';
export type { SdkTransport } from './app/embedding/object-transport.ts';
export { ConfigError, OpenError } from './app/embedding/open-errors.ts';
export { createGateway } from './app/embedding/open-gateway.ts';
export { memoryMessengers, type NatsMessengerSettings, natsMessenger, openNode } from './app/embedding/open-node.ts';
export type { CallOptions } from './app/embedding/operator-calls.ts';
export type { ListenAddress } from './app/embedding/overlay.ts';
export type { Refreshed, Router } from './app/embedding/router.ts';
export { ServerError } from './app/embedding/server-error.ts';
export type { SharedLog } from './bus/shared-log.ts';
export type { SharedState } from './bus/shared-state.ts';
export type { Wire } from './bus/wire.ts';
export type { ConfigProblem } from './config/problem/problem.ts';
export type { Session, SessionManager } from './downstream/session/session-manager.ts';
export type { CredentialView, StartedLogin } from './model/credentials.ts';
export { CATALOGUE as ERROR_CATALOGUE, type ErrorCode, type FailureOutcome } from './model/error-catalogue.ts';
export { GatewayError, type GatewayErrorData } from './model/gateway-error.ts';
export { LATEST_STATEFUL, LATEST_STATELESS, REVISIONS, type Revision } from './model/message.ts';
export type { Operation, Tracker } from './model/operation.ts';
export type { Capability, InvalidItem, ListKind } from './model/server-catalog.ts';
export type {
  AuthChallenge,
  ConnectionStatus,
  Health,
  LaunchFailure,
  RecoveryStep,
  ServerState,
  ServerStatus,
} from './model/server-state.ts';
export type { LogEntry, LogLevel } from './telemetry/log-format.ts';
export type { ConnectionKey } from './upstream/connection/session-key.ts';
export type { MemoryLink, MemoryServer, MemoryServerFactory } from './upstream/transport/memory-transport.ts';
