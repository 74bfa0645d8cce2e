import type { Refusal } from '../../http/context/refusal.ts';
import type { RequestContext } from '../../http/listener/request-context.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import { errorAnswer, failureAnswer } from '../../protocol/compose.ts';

const JSON_TYPE = 'application/json';
const RETRY_AFTER_MS = 1_000;
/** Refusals of the listener after which the client may send the same request again. */
const FAILURES: ReadonlyMap<string, 'OVERLOADED' | 'NOT_SENT'> = new Map([
  ['overloaded', 'OVERLOADED'],
  ['connection_closing', 'NOT_SENT'],
]);
/** Refusals of the listener that have a JSON-RPC code of their own. */
const CODES: ReadonlyMap<string, number> = new Map([
  ['empty_body', CATALOGUE.PARSE_ERROR.rpc],
  ['repeated_mcp_header', CATALOGUE.HEADER_MISMATCH.rpc],
]);

/** Answers with JSON given in parts. `headers` are further headers, name and value alternating. */
export function sendParts(
  context: RequestContext,
  status: number,
  parts: readonly Buffer[],
  headers?: readonly string[],
): void {
  context.answer(status, JSON_TYPE, parts.length === 1 ? parts[0]! : parts, headers);
}

/** The header that says when a failed request may be sent again; undefined if that is not known. */
export function retryAfter(outcome: Outcome): readonly string[] | undefined {
  const afterMs = outcome.kind === 'failure' ? outcome.error.data.retryAfterMs : undefined;
  return afterMs === undefined ? undefined : ['Retry-After', String(Math.ceil(afterMs / 1_000))];
}

/** As `sendParts`, for parts that no code needs afterwards: their pooled memory is reused once they are sent. */
export function sendLastParts(context: RequestContext, status: number, parts: readonly Buffer[]): void {
  context.answerWithPooled(status, JSON_TYPE, parts);
}

export function sendMessage(
  context: RequestContext,
  status: number,
  message: Message,
  headers?: readonly string[],
): void {
  context.answer(status, JSON_TYPE, message.bytes, headers);
}

/** An HTTP error with a JSON-RPC error as its body. `id` is the request's id as written, empty if it is not known. */
export function sendError(
  context: RequestContext,
  status: number,
  text: string,
  id = '',
  headers?: readonly string[],
  code: number = CATALOGUE.INVALID_REQUEST.rpc,
): void {
  sendMessage(context, status, errorAnswer(id, code, text, null, 'stateful'), headers);
}

/** Renders refusals of the listener on MCP routes: JSON-RPC errors without an id. */
export function renderRpc(refusal: Refusal): string {
  const failed = FAILURES.get(refusal.code);
  if (failed !== undefined) {
    const error = new GatewayError(failed, refusal.message, { retryAfterMs: RETRY_AFTER_MS });
    return failureAnswer('', error, 'stateful').bytes.toString();
  }
  const code = CODES.get(refusal.code) ?? CATALOGUE.INVALID_REQUEST.rpc;
  return errorAnswer('', code, refusal.message, JSON.stringify({ reason: refusal.code }), 'stateful').bytes.toString();
}
