import type { OpenObject } from '../app/embedding/mcp-types.ts';
import { CATALOGUE } from '../model/error-catalogue.ts';

/** JSON-RPC's own error codes (S2.1; JSON-RPC 2.0 §5.1). `ERROR_CATALOGUE` has the gateway's further codes. */
export const ERROR_CODES = {
  ParseError: CATALOGUE.PARSE_ERROR.rpc,
  InvalidRequest: CATALOGUE.INVALID_REQUEST.rpc,
  MethodNotFound: CATALOGUE.METHOD_NOT_FOUND.rpc,
  InvalidParams: CATALOGUE.INVALID_PARAMS.rpc,
  InternalError: CATALOGUE.INTERNAL.rpc,
} as const;

/** Kept as the peer wrote it: a string stays a string, a number a number (S2.15). */
export type RequestId = string | number;

/** S2.15 */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** S2.15. Without `id` it is a notification. */
export interface RpcRequest {
  readonly jsonrpc: '2.0';
  readonly id?: RequestId;
  readonly method: string;
  readonly params?: unknown;
}

export interface RpcSuccess {
  readonly jsonrpc: '2.0';
  readonly id: RequestId;
  readonly result: unknown;
}

export interface RpcFailure {
  readonly jsonrpc: '2.0';
  /** null if the request's id could not be read. */
  readonly id: RequestId | null;
  readonly error: RpcError;
}

/** S2.15: either a result or an error, never both and never neither. */
export type RpcResponse = RpcSuccess | RpcFailure;

/** A success always has a `result` (S2.16); by default an empty object. */
export function newSuccessResponse(id: RequestId, result?: unknown): RpcSuccess {
  return { jsonrpc: '2.0', id, result: result ?? {} };
}

/** S2.16. `data` is omitted if undefined. */
export function newErrorResponse(id: RequestId | null, code: number, message: string, data?: unknown): RpcFailure {
  return { jsonrpc: '2.0', id, error: { code, message, ...(data === undefined ? {} : { data }) } };
}

/** S2.14 */
export interface TextContent extends OpenObject {
  readonly type: 'text';
  readonly text: string;
}

/** A text block (S2.14). */
export function newTextContent(text: string): TextContent {
  return { type: 'text', text };
}
