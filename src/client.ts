/** Calls tools of a cluster over NATS from a program that is no node of it (docs/reference/public-subjects.md). Loads nothing of the gateway. */
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
