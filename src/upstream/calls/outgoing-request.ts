import type { Era, Message } from '../../model/message.ts';
import { bodyField, bodyString, progressToken, subscriptionId } from '../../protocol/body.ts';
import {
  encodeHeaderValue,
  type HeaderParam,
  isFieldText,
  paramHeaders,
  scanHeaderParams,
} from '../../protocol/headers.ts';
import { nameMember } from '../../protocol/methods.ts';
import { type Edit, spliceMessage, spliceParts, withId } from '../../protocol/splice.ts';
import { toStateful } from '../../protocol/stateful/to-stateful.ts';
import { toStateless } from '../../protocol/stateless/to-stateless.ts';
import { traceOf } from '../../protocol/trace-context.ts';
import type { Call } from './call.ts';
import type { PendingRequest } from './pending.ts';

/** Looks up the bytes of a tool's definition for this kind of client, by the server's own name; null if unknown. */
interface ToolSource {
  tool(fingerprint: string, name: string): Buffer | null;
}

interface OutgoingWire {
  readonly parts: readonly Buffer[];
  /** Names and values alternating; null for none. */
  readonly headers: readonly string[] | null;
}

/** The request as this server gets it: in its era, with the gateway's id and progress token. */
export function outgoing(call: Call, era: Era, overHttp: boolean, tools: ToolSource): OutgoingWire {
  const request = translated(call, era);
  const own = era === 'stateless' && overHttp ? mirrored(call, request, tools) : null;
  call.mirrored = own;
  const headers = call.trace !== null ? traced(call.trace, request, own ?? []) : own;
  const token = progressToken(request);
  if (token === null) return { parts: withId(request, call.wire), headers };
  call.token = request.bytes.toString('latin1', token.start, token.end);
  const insert = call.wire;
  const edits: Edit[] = [
    { start: request.idStart, end: request.idEnd, insert },
    { start: token.start, end: token.end, insert },
  ];
  return { parts: spliceParts(request.bytes, edits), headers };
}

/** Whether the call would be sent with other headers now, because the definition of its tool has changed. */
export function mirrorsAnew(call: Call, tools: ToolSource): boolean {
  return mirrored(call, translated(call, 'stateless'), tools).join('\n') !== call.mirrored?.join('\n');
}

/** The answer that ends a subscription names it: replaces the gateway's id by the client's. */
export function restoredAnswer(message: Message, pending: PendingRequest): Message {
  const tagged = pending.request === null ? null : subscriptionId(message);
  if (tagged === null) return message;
  const insert = Buffer.from(pending.request!.id, 'latin1');
  return spliceMessage(message, [{ start: tagged.start, end: tagged.end, insert }]);
}

function translated(call: Call, era: Era): Message {
  if (call.request.era === era) return call.request;
  if (era === 'stateful') return toStateful(call.request);
  const { client } = call.exchange;
  return toStateless(call.request, client, client.logLevel);
}

/** Adds the headers of W3C Trace Context, for servers and proxies that read the parent from headers and not from `_meta`. */
function traced(trace: string, request: Message, headers: readonly string[]): readonly string[] {
  const state = traceOf(request, 'tracestate');
  const more = state !== null && isFieldText(state) ? ['tracestate', state] : [];
  return [...headers, 'traceparent', trace, ...more];
}

/** `Mcp-Method`, `Mcp-Name`, `Mcp-Param-*` (2026-07-28, streamable-http §Request Metadata), with the server's own names. */
function mirrored({ client, exchange }: Call, request: Message, tools: ToolSource): readonly string[] {
  const member = nameMember(request.method);
  if (member === null || request.bodyStart < 0) return ['Mcp-Method', request.method];
  const name = bodyString(request, member);
  if (name === null) return ['Mcp-Method', request.method];
  const headers = ['Mcp-Method', request.method, 'Mcp-Name', encodeHeaderValue(name)];
  if (request.method !== 'tools/call') return headers;
  const definition = tools.tool(client.fingerprint, name);
  const declared = definition === null ? NONE : declaredBy(definition);
  if (declared.length > 0) headers.push(...paramHeaders(declared, request.bytes, bodyField(request, 'arguments')));
  if (exchange.paramHeaders != null) addUnknown(headers, exchange.paramHeaders, declared);
  return headers;
}

/** Intermediaries forward `Mcp-Param-*` that the tool does not declare (streamable-http §Custom Headers). */
function addUnknown(headers: string[], sent: Readonly<Record<string, string>>, declared: readonly HeaderParam[]): void {
  for (const name in sent) {
    const value = sent[name]!;
    if (declared.some(({ header }) => `mcp-param-${header.toLowerCase()}` === name)) continue;
    if (isFieldText(value)) headers.push(name, value);
  }
}

const NONE: readonly HeaderParam[] = [];
/** Declared header parameters by definition. Definitions are immutable, so each is scanned once. */
const DECLARED = new WeakMap<Buffer, readonly HeaderParam[]>();

function declaredBy(definition: Buffer): readonly HeaderParam[] {
  let declared = DECLARED.get(definition);
  if (declared === undefined) {
    const scanned = scanHeaderParams(definition);
    declared = scanned.ok ? scanned.declared : NONE;
    DECLARED.set(definition, declared);
  }
  return declared;
}
