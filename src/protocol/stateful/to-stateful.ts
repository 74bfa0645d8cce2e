import { createHash } from 'node:crypto';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { bodyField, errorCode } from '../body.ts';
import { failureAnswer } from '../compose.ts';
import { elements, entries, field, fieldAt, isObject, type Range, stringValue, text } from '../fields.ts';
import {
  CLIENT_CAPABILITIES_KEY,
  CLIENT_INFO_KEY,
  LOG_LEVEL_KEY,
  PROTOCOL_VERSION_KEY,
  SERVER_INFO_KEY,
  SUBSCRIPTION_ID_KEY,
} from '../meta-keys.ts';
import { isCacheable } from '../methods.ts';
import {
  type Change,
  type Edit,
  editBody,
  editObject,
  elementsChange,
  metaChange,
  splice,
  spliceMessage,
} from '../splice.ts';
import { resultType } from '../stateless/to-stateless.ts';

/** The four keys of a self-contained stateless request (2026-07-28 basic §_meta). */
const REQUEST_KEYS = [PROTOCOL_VERSION_KEY, CLIENT_INFO_KEY, CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY];
/** Notifications of 2026-07-28 that no stateful revision has. */
const UNKNOWN_NOTIFICATIONS = ['notifications/subscriptions/acknowledged', 'notifications/tasks'];

/** A request in stateful vocabulary, without the `_meta` of a stateless request and members of `input_required` rounds. */
export function toStateful(request: Message): Message {
  if (request.era === 'stateful') return request;
  return withoutMembers(request, REQUEST_KEYS, ['inputResponses', 'requestState']);
}

/** A server's notification for a stateful client; null if that client's revisions have no such notification. */
export function notificationToStateful(notification: Message): Message | null {
  if (notification.era === 'stateful') return notification;
  if (UNKNOWN_NOTIFICATIONS.includes(notification.method)) return null;
  return withoutMembers(notification, [SUBSCRIPTION_ID_KEY, SERVER_INFO_KEY], []);
}

function withoutMembers(message: Message, ofMeta: readonly string[], ofBody: readonly string[]): Message {
  const { bytes, bodyStart: start, bodyEnd: end } = message;
  if (start < 0) return spliceMessage(message, [], 'stateful');
  const meta = metaChange(bytes, { start, end }, ofMeta.map(removed));
  const changes = ofBody.map(removed);
  return editBody(message, meta === null ? changes : [meta, ...changes], 'stateful');
}

function removed(key: string): Change {
  return [key, null];
}

/** A stateless server's error for a stateful client: -32602 with `data.uri` becomes -32002 (2025-11-25). */
export function errorToStateful(error: Message, method: string): Message {
  if (error.era === 'stateful') return error;
  const { bytes, bodyStart, bodyEnd } = error;
  const code = bodyField(error, 'code');
  const unknownResource =
    (method === 'resources/read' || method === 'resources/subscribe') &&
    code !== null &&
    errorCode(error) === CATALOGUE.INVALID_PARAMS.rpc &&
    fieldAt(bytes, bodyStart, bodyEnd, ['data', 'uri']) !== null;
  const edits = unknownResource ? [{ ...code, insert: String(CATALOGUE.RESOURCE_NOT_FOUND.rpc) }] : [];
  return spliceMessage(error, edits, 'stateful');
}

/**
 * A stateless server's result for a stateful client. `structuredContent` that is not an object becomes `{"result":…}`; with
 * `wrapsOutput` an object does too. A type other than `complete` becomes a failure: the caller has resolved
 * `input_required` before.
 */
export function resultToStateful(result: Message, method: string, wrapsOutput = false, own = false): Message {
  if (result.era === 'stateful') return result;
  const type = resultType(result);
  if (type !== 'complete') {
    const words = `the server answered with a result of the unknown type ${JSON.stringify(type.slice(0, 64))}`;
    return failureAnswer(result.id, new GatewayError('UPSTREAM_PROTOCOL', words), 'stateful');
  }
  const { bytes, bodyStart: start, bodyEnd: end } = result;
  if (bytes[start] !== 0x7b) return spliceMessage(result, [], 'stateful');
  const changes: Change[] = [['resultType', null]];
  if (isCacheable(method)) changes.push(['ttlMs', null], ['cacheScope', null]);
  const meta = metaChange(bytes, { start, end }, [[SERVER_INFO_KEY, null]]);
  if (meta !== null) changes.push(meta);
  if (method === 'tools/call') changes.push(...structuredContent(bytes, { start, end }, wrapsOutput));
  const tools = method === 'tools/list' ? elementsChange(bytes, { start, end }, 'tools', toolToStateful) : null;
  if (tools !== null) changes.push(tools);
  return editBody(result, changes, 'stateful', own);
}

function structuredContent(bytes: Buffer, { start, end }: Range, wrapsOutput: boolean): Change[] {
  const value = field(bytes, start, end, 'structuredContent');
  if (value === null || (isObject(bytes, value) && !wrapsOutput)) return [];
  const json = bytes.subarray(value.start, value.end);
  const changes: Change[] = [['structuredContent', Buffer.concat([Buffer.from('{"result":'), json, Buffer.from('}')])]];
  const content = field(bytes, start, end, 'content');
  const empty = content === null || elements(bytes, content.start, content.end).next().done === true;
  if (empty) changes.push(['content', `[{"type":"text","text":${JSON.stringify(text(bytes, value))}}]`]);
  return changes;
}

/** Whether outputs are wrapped for stateful clients, whose `outputSchema` is an object. Depends on the schema only. */
export function wrapsOutput(tool: Buffer): boolean {
  const schema = outputSchema(tool);
  return schema !== null && stringValue(tool, field(tool, schema.start, schema.end, 'type')) !== 'object';
}

/** A stateless server's tool for stateful clients, whose `properties` are objects; the same buffer for no change. */
export function toolToStateful(tool: Buffer): Buffer {
  const input = field(tool, 0, tool.length, 'inputSchema');
  const output = outputSchema(tool);
  const edits = input === null ? [] : booleans(tool, input);
  if (output !== null && wrapsOutput(tool)) edits.push({ ...output, insert: wrapped(tool, output) });
  else if (output !== null) edits.push(...booleans(tool, output));
  return splice(tool, edits);
}

function wrapped(tool: Buffer, schema: Range): Buffer {
  const [before, after] = ['{"type":"object","properties":{"result":', '},"required":["result"]}'];
  return Buffer.concat([Buffer.from(before), anchored(tool, schema), Buffer.from(after)]);
}

/** Replaces each property that is `true` or `false` with an equivalent object. */
function booleans(tool: Buffer, schema: Range): Edit[] {
  const properties = field(tool, schema.start, schema.end, 'properties');
  if (properties === null) return [];
  return [...entries(tool, properties.start, properties.end)].flatMap(({ valueStart: start, valueEnd: end }) => {
    if (tool[start] === 0x74) return [{ start, end, insert: '{}' }];
    return tool[start] === 0x66 ? [{ start, end, insert: '{"not":{}}' }] : [];
  });
}

function outputSchema(tool: Buffer): Range | null {
  return tool.includes('outputSchema') ? field(tool, 0, tool.length, 'outputSchema') : null;
}

/** Adds an id, so that references into the schema (`#/…`) still resolve when it is no longer the root. */
function anchored(tool: Buffer, schema: Range): Buffer {
  const own = tool.subarray(schema.start, schema.end);
  if (own[0] !== 0x7b || !own.includes('$ref') || field(tool, schema.start, schema.end, '$id') !== null) return own;
  const digest = createHash('sha256').update(own).digest('hex').slice(0, 16);
  return editObject(tool, schema, [['$id', `"urn:trunkline:output:${digest}"`]]);
}
