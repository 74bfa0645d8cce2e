import type { ClientProfile } from '../../model/client-profile.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import { LATEST_STATELESS, type Message } from '../../model/message.ts';
import { bodyField, errorCode } from '../body.ts';
import { field, fullRange, isObject, stringValue } from '../fields.ts';
import {
  CLIENT_CAPABILITIES_KEY,
  CLIENT_INFO_KEY,
  LOG_LEVEL_KEY,
  PROTOCOL_VERSION_KEY,
  SERVER_INFO_KEY,
} from '../meta-keys.ts';
import { isCacheable } from '../methods.ts';
import {
  type Change,
  type Edit,
  editBody,
  editMembers,
  editObject,
  elementsChange,
  metaChange,
  splice,
  spliceMessage,
  withBody,
} from '../splice.ts';
import { takesInput } from './input-required.ts';

/** Notifications of the stateful revisions that 2026-07-28 does not have. */
const UNKNOWN_NOTIFICATIONS: ReadonlySet<string> = new Set([
  'notifications/initialized',
  'notifications/roots/list_changed',
  'notifications/elicitation/complete',
  'notifications/tasks/status',
]);

type Client = Pick<ClientProfile, 'capabilities' | 'info'>;

const EMPTY = Buffer.from('{}');

/** A request in stateless vocabulary: `_meta` carries what the session declared. `task` of 2025-11-25 is left out. */
export function toStateless(request: Message, client: Client, logLevel: string | null = null): Message {
  if (request.era === 'stateless') return request;
  const { bytes, bodyStart: start, bodyEnd: end } = request;
  if (start >= 0 && isPlain(bytes, start, end)) {
    const insert = metaMember(client, logLevel);
    return spliceMessage(request, [{ start: start + 1, end: start + 1, insert }], 'stateless');
  }
  const said = clientMeta(client, logLevel);
  if (start < 0) {
    const meta = metaChange(EMPTY, fullRange(EMPTY), said)!;
    return withBody(request, editObject(EMPTY, fullRange(EMPTY), [meta]).toString(), 'stateless');
  }
  const changes: Change[] = [];
  const meta = metaChange(bytes, { start, end }, said);
  if (meta !== null) changes.push(meta);
  if (request.method === 'tools/call') changes.push(['task', null]);
  // No stateful client was ever asked for these: what is there does not answer a server.
  if (takesInput(request.method)) changes.push(['inputResponses', null], ['requestState', null]);
  return editBody(request, changes, 'stateless');
}

/** A plain request is small; in a large one five searches cost more than they save. */
const MAX_PLAIN_BYTES = 2048;
/** Members that have to be changed or examined; a backslash can hide any of them. */
const NOT_PLAIN = ['_meta', 'task', 'inputResponses', 'requestState', '\\'].map((text) => Buffer.from(text));

/** Most requests need no change except for an added `_meta`. */
function isPlain(bytes: Buffer, start: number, end: number): boolean {
  // An object with a first member directly behind its brace.
  if (end - start > MAX_PLAIN_BYTES || bytes[start] !== 0x7b || bytes[start + 1] !== 0x22) return false;
  const body = bytes.subarray(start, end);
  return NOT_PLAIN.every((text) => !body.includes(text));
}

/** The last `_meta` member of each client: all requests of a session have the same. */
const SAID = new WeakMap<object, Client & { readonly logLevel: string | null; readonly member: Buffer }>();

function metaMember(client: Client, logLevel: string | null): Buffer {
  const last = SAID.get(client);
  const { capabilities, info } = client;
  if (last?.logLevel === logLevel && last.capabilities === capabilities && last.info === info) return last.member;
  const [, meta] = metaChange(EMPTY, fullRange(EMPTY), clientMeta(client, logLevel))!;
  const member = Buffer.from(`"_meta":${meta},`);
  SAID.set(client, { logLevel, capabilities, info, member });
  return member;
}

/** A notification in stateless vocabulary; null if 2026-07-28 has none. The caller adds the id of a subscription. */
export function notificationToStateless(notification: Message): Message | null {
  if (notification.era === 'stateless') return notification;
  if (UNKNOWN_NOTIFICATIONS.has(notification.method)) return null;
  return spliceMessage(notification, [], 'stateless');
}

/** `_meta` members that describe the client to a stateless server (2026-07-28 basic §_meta). Null: to be removed. */
export function clientMeta(
  { capabilities, info }: Client,
  logLevel: string | null = null,
): (readonly [string, string | null])[] {
  // Tasks that a client runs for servers have no counterpart in 2026-07-28.
  const tasks = capabilities.includes('tasks');
  return [
    [PROTOCOL_VERSION_KEY, `"${LATEST_STATELESS}"`],
    [CLIENT_CAPABILITIES_KEY, tasks ? withoutMember(Buffer.from(capabilities), 'tasks').toString() : capabilities],
    [CLIENT_INFO_KEY, info],
    [LOG_LEVEL_KEY, logLevel === null ? null : JSON.stringify(logLevel)],
  ];
}

/** The same buffer if there is no such member. */
function withoutMember(object: Buffer, key: string): Buffer {
  return splice(object, editMembers(object, fullRange(object), [[key, null]]));
}

/** A stateful server's tool for stateless clients: without `execution`, because 2026-07-28 has tasks in another form. */
export function toolToStateless(tool: Buffer): Buffer {
  return tool.includes('execution') ? withoutMember(tool, 'execution') : tool;
}

/**
 * A stateful server's error for a stateless client: -32002 becomes -32602 with `data.uri` (2026-07-28 server/resources).
 * `uri`: that of the request, for servers that did not repeat it.
 */
export function errorToStateless(error: Message, method: string, uri: string | null = null): Message {
  if (error.era === 'stateless') return error;
  const code = bodyField(error, 'code');
  const ofResource = method === 'resources/read' || method === 'resources/subscribe';
  if (!ofResource || code === null || errorCode(error) !== CATALOGUE.RESOURCE_NOT_FOUND.rpc) {
    return spliceMessage(error, [], 'stateless');
  }
  const changed = { ...code, insert: String(CATALOGUE.INVALID_PARAMS.rpc) };
  return spliceMessage(error, [changed, ...(uri === null ? [] : uriEdits(error, uri))], 'stateless');
}

function uriEdits(error: Message, uri: string): Edit[] {
  const { bytes, bodyStart: start, bodyEnd: end } = error;
  const data = bodyField(error, 'data');
  if (data === null) return editMembers(bytes, { start, end }, [['data', JSON.stringify({ uri })]]);
  // Data of another shape stays unchanged.
  if (!isObject(bytes, data) || field(bytes, data.start, data.end, 'uri') !== null) return [];
  return editMembers(bytes, data, [['uri', JSON.stringify(uri)]]);
}

/**
 * A stateful server's result for a stateless client: complete, not cacheable, with the server's name (null: without it).
 * `own` as in `spliceMessage`.
 */
export function resultToStateless(result: Message, method: string, serverInfo: string | null, own = false): Message {
  if (result.era === 'stateless') return result;
  const { bytes, bodyStart: start, bodyEnd: end } = result;
  if (bytes[start] !== 0x7b) return spliceMessage(result, [], 'stateless');
  // These members mean nothing in the stateful revisions, so existing ones are not hints and must be replaced.
  const changes: Change[] = [['resultType', '"complete"']];
  if (isCacheable(method)) changes.push(['ttlMs', '0'], ['cacheScope', '"private"']);
  const meta = serverInfo === null ? null : metaChange(bytes, { start, end }, [[SERVER_INFO_KEY, serverInfo]]);
  if (meta !== null) changes.push(meta);
  const tools = method === 'tools/list' ? elementsChange(bytes, { start, end }, 'tools', toolToStateless) : null;
  if (tools !== null) changes.push(tools);
  return editBody(result, changes, 'stateless', own);
}

/** The type of a stateless result: `complete` (also by default), `input_required`, `task`, or another one. */
export function resultType(result: Message): string {
  const type = bodyField(result, 'resultType');
  return type === null ? 'complete' : (stringValue(result.bytes, type) ?? 'malformed');
}
