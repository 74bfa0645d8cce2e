/**
 * Protocol types for programs that embed the gateway. They name the members of the specification; other members pass through
 * under `[key: string]` (S2.14, S2.17). Numbers beyond 2^53 lose digits when JSON is parsed: if that matters, read the `raw`
 * text of the answer.
 */

/** An object with any members. */
export interface OpenObject {
  readonly [key: string]: unknown;
}

/** Name and version of an implementation (S2.13; schema `Implementation`). Titles and icons pass through. */
export interface Implementation extends OpenObject {
  readonly name: string;
  readonly version: string;
  readonly title?: string;
}

export type ServerInfo = Implementation;
export type ClientInfo = Implementation;

/** S2.6 */
export interface ToolsCapability extends OpenObject {
  readonly listChanged?: boolean;
}

/** S2.6 */
export interface ResourcesCapability extends OpenObject {
  readonly subscribe?: boolean;
  readonly listChanged?: boolean;
}

/** S2.6 */
export type PromptsCapability = ToolsCapability;

/** What a server declares at the handshake (S2.6; schema `ServerCapabilities`). */
export interface Capabilities extends OpenObject {
  readonly tools?: ToolsCapability;
  readonly resources?: ResourcesCapability;
  readonly prompts?: PromptsCapability;
}

/** One block of a tool's result or a prompt's message, of any type (S2.14; schema `ContentBlock`). */
export interface Content extends OpenObject {
  readonly type: string;
  /** For type `text`. */
  readonly text?: string;
  /** For types `image` and `audio`: base64. */
  readonly data?: string;
  readonly mimeType?: string;
}

/** A tool as its server defines it, unknown members included (S2.17; schema `Tool`). */
export interface Tool extends OpenObject {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: OpenObject;
  readonly outputSchema?: OpenObject;
}

/** S2.19 */
export interface ToolCallParams {
  readonly name: string;
  readonly arguments?: OpenObject;
  readonly _meta?: OpenObject;
}

/** S2.19; schema `CallToolResult`. `isError`: the tool reports a failure. */
export interface ToolCallResult extends OpenObject {
  readonly content: readonly Content[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
  readonly _meta?: OpenObject;
}

/** S2.19; schema `ListToolsResult`. */
export interface ToolsListResult extends OpenObject {
  readonly tools: readonly Tool[];
  /** Cursor of the next page; absent on the last one. */
  readonly nextCursor?: string;
}

/** S2.20; schema `InitializeRequestParams`. */
export interface InitializeParams {
  readonly protocolVersion: string;
  readonly capabilities?: OpenObject;
  readonly clientInfo?: ClientInfo;
}

/** S2.20; schema `InitializeResult`. */
export interface InitializeResult extends OpenObject {
  readonly protocolVersion: string;
  readonly capabilities: Capabilities;
  readonly serverInfo: ServerInfo;
  readonly instructions?: string;
}

export interface Resource extends OpenObject {
  readonly uri: string;
  readonly name: string;
  readonly description?: string;
  readonly mimeType?: string;
}

export interface ResourceTemplate extends OpenObject {
  readonly uriTemplate: string;
  readonly name: string;
}

export interface ReadResourceResult extends OpenObject {
  readonly contents: readonly (OpenObject & { readonly uri: string; readonly text?: string; readonly blob?: string })[];
}

export interface Prompt extends OpenObject {
  readonly name: string;
  readonly description?: string;
  readonly arguments?: readonly (OpenObject & { readonly name: string; readonly required?: boolean })[];
}

export interface GetPromptResult extends OpenObject {
  readonly description?: string;
  readonly messages: readonly { readonly role: string; readonly content: Content }[];
}

export interface CompleteResult extends OpenObject {
  readonly completion: { readonly values: readonly string[]; readonly total?: number; readonly hasMore?: boolean };
}

/** What a completion is for (schema `PromptReference`, `ResourceTemplateReference`). */
export type CompletionReference =
  | { readonly type: 'ref/prompt'; readonly name: string }
  | { readonly type: 'ref/resource'; readonly uri: string };

/** Progress of a call (schema `ProgressNotificationParams`). */
export interface Progress extends OpenObject {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

/** Arguments of a tool: an object, or the text of a JSON object, which reaches the server unchanged (S2.12). */
export type ToolArguments = OpenObject | string;

/** A parsed answer with the text it was parsed from, exactly as the server wrote it. */
export type Answer<T> = T & { readonly raw: string };
