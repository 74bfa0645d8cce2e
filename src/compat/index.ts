/**
 * `trunkline/compat`: the names of the libraries that Trunkline replaces, for programs that migrate to it. New programs use
 * `trunkline`. test/surface.test.ts pins the exports. Ids such as S2.15 are requirements (test/e2e/requirements.ts).
 */

export { Router } from '../app/embedding/router.ts';
export { SUBJECT_CREATED, SUBJECT_DELETED, subjectExecute, subjectListTools } from '../app/public-subjects/subjects.ts';
export {
  decodeListToolsReply,
  decodeToolReply,
  type MCPDeletedEvent,
  type MCPReplyOutcome,
  type MCPToolListReply,
  type MCPToolReply,
  type MCPToolRequest,
} from '../app/public-subjects/tool-client.ts';
export {
  type CapabilityChange,
  type CapabilityDrift,
  type CapabilityLists,
  capabilityDrift,
  type FieldChange,
} from '../catalog/drift/capability-drift.ts';
export { type PrefixedTool, parsePrefixedTool, prefixTool } from '../catalog/exposed-names.ts';
export { BACKOFF_MULTIPLIER } from '../model/clock.ts';
export { POOL_DEFAULTS, type PoolSettings } from '../model/desired-state.ts';
export { PROTOCOL_VERSION } from '../model/message.ts';
export { TOOL_NAME_DELIMITER } from '../model/names.ts';
export type { Capability, ListKind } from '../model/server-catalog.ts';
export { type ConnectionKey, connectionKeyText } from '../upstream/connection/session-key.ts';
export { DEFAULT_REMOTE_TIMEOUT_MS } from '../upstream/server-context.ts';
export { INITIAL_BACKOFF_MS, MAX_BACKOFF_MS, UNREACHABLE_THRESHOLD } from '../upstream/supervision/start-backoff.ts';
export { RESTART_GRACE_MS } from '../upstream/supervision/supervisor.ts';
export {
  type BridgedTool,
  bridgeAll,
  bridgedTools,
  callBridgedTool,
  type LocalTool,
  pendingSchemaChanges,
  resultText,
  type ToolText,
} from './bridge.ts';
export {
  compareToolLists,
  type DriftKind,
  type DriftReport,
  type ToolChange,
  type ToolMeta,
  toolChanges,
} from './compare-tool-lists.ts';
export { type InputSchemaObject, type OptionalProperty, objectSchema, type Property } from './object-schema.ts';
export {
  ERROR_CODES,
  newErrorResponse,
  newSuccessResponse,
  newTextContent,
  type RequestId,
  type RpcError,
  type RpcFailure,
  type RpcRequest,
  type RpcResponse,
  type RpcSuccess,
  type TextContent,
} from './rpc-messages.ts';
export { type ChannelOptions, openChannel, type ServerChannel } from './server-channel.ts';
export {
  type LifecycleState,
  lifecycleOf,
  type ServerCapabilities,
  type ServerProxy,
  serverCapabilities,
  serverProxies,
  serverProxy,
} from './server-proxy.ts';
