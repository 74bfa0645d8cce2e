/**
 * The public API of the package: the gateway in a program, and what surrounds it. Pinned by test/surface.test.ts.
 *
 * `createGateway` is where to begin; `Gateway` documents everything it can do. Ids such as S2.5 in the documentation
 * are rows of the mission (test/e2e/requirements.ts); errors are described in docs/errors.md.
 */

export type { Messenger } from './app/cluster/cluster-connection.ts';
export type { AgentClient, Answer, ToolArguments } from './app/embedding/agent-client.ts';
export {
  type BridgedTool,
  bridgeAll,
  bridgedTools,
  callBridgedTool,
  type LocalTool,
  pendingSchemaChanges,
  resultText,
  type ToolText,
} from './app/embedding/bridge.ts';
export { type ConnectOptions, connectServer, type ServerClient } from './app/embedding/connect-server.ts';
export { createGateway } from './app/embedding/create-gateway.ts';
export type {
  AsAgent,
  Gateway,
  GatewayEvents,
  GatewayServerStatus,
  GatewayTool,
  Listening,
} from './app/embedding/gateway-api.ts';
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
export {
  type Capabilities,
  type ClientInfo,
  type CompleteResult,
  type CompletionReference,
  type Content,
  type GetPromptResult,
  type Implementation,
  type InitializeParams,
  type InitializeResult,
  newTextContent,
  type OpenObject,
  type Progress,
  type Prompt,
  type PromptsCapability,
  type ReadResourceResult,
  type Resource,
  type ResourcesCapability,
  type ResourceTemplate,
  type ServerInfo,
  type TextContent,
  type Tool,
  type ToolCallParams,
  type ToolCallResult,
  type ToolsCapability,
  type ToolsListResult,
} from './app/embedding/mcp-types.ts';
export type { SdkTransport } from './app/embedding/object-transport.ts';
export { ConfigError, OpenError } from './app/embedding/open-errors.ts';
export { memoryMessengers, type NatsMessengerSettings, natsMessenger, openNode } from './app/embedding/open-node.ts';
export type { CallOptions } from './app/embedding/operator-calls.ts';
export type { ListenAddress } from './app/embedding/overlay.ts';
export { type Refreshed, Router } from './app/embedding/router.ts';
export {
  ERROR_CODES,
  newErrorResponse,
  newSuccessResponse,
  type RequestId,
  type RpcError,
  type RpcFailure,
  type RpcRequest,
  type RpcResponse,
  type RpcSuccess,
} from './app/embedding/rpc-messages.ts';
export { type ChannelOptions, openChannel, type ServerChannel } from './app/embedding/server-channel.ts';
export { ServerError } from './app/embedding/server-error.ts';
export {
  type LifecycleState,
  lifecycleOf,
  type ServerCapabilities,
  type ServerProxy,
  serverCapabilities,
  serverProxies,
  serverProxy,
} from './app/embedding/server-proxy.ts';
export { decodeListToolsReply, decodeToolReply } from './app/public-subjects/decode-replies.ts';
export { SUBJECT_CREATED, SUBJECT_DELETED, subjectExecute, subjectListTools } from './app/public-subjects/subjects.ts';
export type {
  MCPDeletedEvent,
  MCPReplyOutcome,
  MCPToolListReply,
  MCPToolReply,
  MCPToolRequest,
} from './app/public-subjects/tool-client.ts';
export type { SharedLog } from './bus/shared-log.ts';
export type { SharedState } from './bus/shared-state.ts';
export type { Wire } from './bus/wire.ts';
export {
  type CapabilityChange,
  type CapabilityDrift,
  type CapabilityLists,
  capabilityDrift,
  type FieldChange,
} from './catalog/drift/capability-drift.ts';
export {
  compareToolLists,
  type DriftKind,
  type DriftReport,
  type ToolChange,
  type ToolMeta,
  toolChanges,
} from './catalog/drift/compare-tool-lists.ts';
export { type PrefixedTool, parsePrefixedTool, prefixTool } from './catalog/exposed-names.ts';
export { type InputSchemaObject, type OptionalProperty, objectSchema, type Property } from './catalog/object-schema.ts';
export type { ConfigProblem } from './config/problem/problem.ts';
export type { Session, SessionManager } from './downstream/session/session-manager.ts';
export { BACKOFF_MULTIPLIER } from './model/clock.ts';
export { POOL_DEFAULTS, type PoolSettings } from './model/desired-state.ts';
export { CATALOGUE as ERROR_CATALOGUE, type ErrorCode, type FailureOutcome } from './model/error-catalogue.ts';
export { GatewayError, type GatewayErrorData } from './model/gateway-error.ts';
export { LATEST_STATEFUL, LATEST_STATELESS, PROTOCOL_VERSION, REVISIONS, type Revision } from './model/message.ts';
export { TOOL_NAME_DELIMITER } from './model/names.ts';
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
export type { LogEntry, LogLevel } from './telemetry/log-entry.ts';
export { type ConnectionKey, connectionKeyText } from './upstream/connection/session-key.ts';
export { INITIAL_BACKOFF_MS, MAX_BACKOFF_MS, UNREACHABLE_THRESHOLD } from './upstream/supervision/setbacks.ts';
export { RESTART_GRACE_MS } from './upstream/supervision/supervisor.ts';
export type { MemoryLink, MemoryServer, MemoryServerFactory } from './upstream/transport/memory-transport.ts';
export { DEFAULT_REMOTE_TIMEOUT_MS } from './upstream/upstream-deps.ts';
