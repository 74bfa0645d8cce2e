/** Calls a cluster's tools over NATS from another program, without loading the gateway (docs/reference/public-subjects.md). */
export { SUBJECT_CREATED, SUBJECT_DELETED, subjectExecute, subjectListTools } from './app/public-subjects/subjects.ts';
export {
  decodeListToolsReply,
  decodeToolReply,
  type MCPDeletedEvent,
  type MCPReplyOutcome,
  type MCPToolListReply,
  type MCPToolReply,
  type MCPToolRequest,
  ToolCallError,
  ToolClient,
  type ToolClientOptions,
  type ToolConnection,
} from './app/public-subjects/tool-client.ts';
