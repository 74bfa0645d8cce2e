import { CATALOGUE } from '../model/error-catalogue.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { answer, failure, type Outcome } from '../model/outcome.ts';
import { bodyField, bodyLexeme, bodyString, mayHaveMember } from './body.ts';
import { field, stringValue } from './fields.ts';
import { skipSpace } from './skip.ts';
import { spliceMessage, withBody } from './splice.ts';

const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const NAMES = { traceparent: Buffer.from('traceparent'), tracestate: Buffer.from('tracestate') };
const OF_RESOURCE: ReadonlySet<string> = new Set(['resources/read', 'resources/subscribe', 'resources/unsubscribe']);
const NAMED: ReadonlySet<string> = new Set(['tools/call', 'prompts/get']);
/** Characters of a text of the client in a span. */
const MAX_ATTRIBUTE = 1_024;

/** `_meta.traceparent` of a request (SEP-414), or its `tracestate`; null if it has none. */
export function traceOf(request: Message, key: 'traceparent' | 'tracestate' = 'traceparent'): string | null {
  if (!mayHaveMember(request, NAMES[key])) return null;
  const meta = bodyField(request, '_meta');
  return meta === null ? null : stringValue(request.bytes, field(request.bytes, meta.start, meta.end, key));
}

/** The request with this `_meta.traceparent`, other bytes unchanged. Builds no list of members: traced calls run it twice. */
export function withTrace(request: Message, traceparent: string): Message {
  const { bytes, bodyStart } = request;
  if (bodyStart < 0) return withBody(request, `{"_meta":{"traceparent":"${traceparent}"}}`);
  const meta = bodyField(request, '_meta');
  if (meta === null) return withFirst(request, bodyStart, `"_meta":{"traceparent":"${traceparent}"}`);
  if (bytes[meta.start] !== OPEN_BRACE) return request;
  const known = field(bytes, meta.start, meta.end, 'traceparent');
  if (known === null) return withFirst(request, meta.start, `"traceparent":"${traceparent}"`);
  return spliceMessage(request, [{ ...known, insert: `"${traceparent}"` }]);
}

function withFirst(request: Message, object: number, member: string): Message {
  const start = object + 1;
  const isOnly = request.bytes[skipSpace(request.bytes, start)] === CLOSE_BRACE;
  return spliceMessage(request, [{ start, end: start, insert: isOnly ? member : `${member},` }]);
}

/** Name and attributes of a request's span (OpenTelemetry semantic conventions for MCP). */
export function spanOf(request: Message): { readonly name: string; readonly attributes: Record<string, string> } {
  const { method } = request;
  const attributes: Record<string, string> = { 'mcp.method.name': method };
  const uri = OF_RESOURCE.has(method) ? attribute(request, 'uri') : null;
  if (uri !== null) attributes['mcp.resource.uri'] = uri;
  const name = NAMED.has(method) ? attribute(request, 'name') : null;
  if (name === null) return { name: method, attributes };
  attributes[method === 'tools/call' ? 'gen_ai.tool.name' : 'gen_ai.prompt.name'] = name;
  if (method === 'tools/call') attributes['gen_ai.operation.name'] = 'execute_tool';
  return { name: `${method} ${name}`, attributes };
}

/** A copy of the beginning of a long text: a substring would keep the whole text in memory. */
function attribute(request: Message, key: string): string | null {
  const text = bodyString(request, key);
  return text === null || text.length <= MAX_ATTRIBUTE ? text : Buffer.from(text.slice(0, MAX_ATTRIBUTE)).toString();
}

/** All other codes of servers have the same type. */
const RPC_CODE = /^-32\d{3}$/;
const IS_ERROR = '"isError"';
/** A result is searched for the member within so many bytes of its ends: tools write it beside the content, not in it. */
const SEARCHED = 16 * 1024;

/** `error.type`: the JSON-RPC code, or `tool_error` if the tool reports an error; null for success. */
export function errorTypeOf(outcome: Outcome): string | null {
  if (outcome.kind === 'failure') return String(outcome.error.rpcCode);
  const { message } = outcome;
  if (message.kind === 'error') {
    const code = bodyLexeme(message, 'code') ?? '';
    return RPC_CODE.test(code) ? code : '_OTHER';
  }
  return mayBeToolError(message) && bodyLexeme(message, 'isError') === 'true' ? 'tool_error' : null;
}

const LABELS: ReadonlySet<string> = new Set(['tool_error', ...Object.values(CATALOGUE).map(({ rpc }) => String(rpc))]);

/** `error.type` as a metric label: empty for success. One value for codes that servers invent, to limit the series. */
export function errorLabel(error: string | null): string {
  return error === null ? '' : LABELS.has(error) ? error : '_OTHER';
}

/** Finding that a long result has no such member must not cost a pass over all of it. */
function mayBeToolError({ bytes }: Message): boolean {
  const { length } = bytes;
  if (length <= 2 * SEARCHED) return bytes.includes(IS_ERROR, 0, 'latin1');
  return (
    bytes.subarray(0, SEARCHED).includes(IS_ERROR, 0, 'latin1') ||
    bytes.subarray(length - SEARCHED).includes(IS_ERROR, 0, 'latin1')
  );
}

/** Ends the span with the outcome, and returns the same outcome. */
export function endSpan(span: { end(error: string | null): void }, outcome: Promise<Outcome>): Promise<Outcome> {
  return outcome.then((result) => {
    span.end(errorTypeOf(result));
    return result;
  });
}

/** As `endSpan`, for a request of a server that its client answers. */
export function endSpanWithAnswer(
  span: { end(error: string | null): void },
  given: Promise<Message>,
): Promise<Message> {
  const failed = (error: unknown): Outcome => failure(error instanceof GatewayError ? error : UNEXPECTED);
  void endSpan(span, given.then(answer, failed));
  return given;
}

const UNEXPECTED = new GatewayError('INTERNAL', 'the client could not be asked');
