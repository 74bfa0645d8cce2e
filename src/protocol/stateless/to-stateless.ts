import type { ClientProfile } from '../../model/client-profile.ts';
import type { Message } from '../../model/message.ts';
import { type Change, editBody, editObject, metaChange } from '../edit-object.ts';
import { spliceMessage, withBody } from '../splice.ts';
import { clientMeta } from './client-meta.ts';
import { takesInput } from './input-required.ts';

/** Notifications of the stateful revisions that 2026-07-28 has no name for. */
const UNKNOWN_NOTIFICATIONS: ReadonlySet<string> = new Set([
  'notifications/initialized',
  'notifications/roots/list_changed',
  'notifications/elicitation/complete',
  'notifications/tasks/status',
]);

const EMPTY = Buffer.from('{}');
const WHOLE_EMPTY = { start: 0, end: 2 };

/**
 * A request in stateless vocabulary: its `_meta` says what the session said once (revision, capabilities, client),
 * and the log level the client has set, if any. `task`, which asks for a task of 2025-11-25, is left out.
 */
export function toStateless(
  request: Message,
  client: Pick<ClientProfile, 'capabilities' | 'info'>,
  logLevel: string | null = null,
): Message {
  if (request.era === 'stateless') return request;
  const { bytes, bodyStart: start, bodyEnd: end } = request;
  if (start >= 0 && isPlain(bytes, start, end)) {
    return spliceMessage(
      request,
      [{ start: start + 1, end: start + 1, insert: metaMember(client, logLevel) }],
      'stateless',
    );
  }
  const said = clientMeta(client, logLevel);
  if (start < 0) {
    const meta = metaChange(EMPTY, WHOLE_EMPTY, said)!;
    return withBody(request, editObject(EMPTY, WHOLE_EMPTY, [meta]).toString(), 'stateless');
  }
  const changes: Change[] = [];
  const meta = metaChange(bytes, { start, end }, said);
  if (meta !== null) changes.push(meta);
  if (request.method === 'tools/call') changes.push(['task', null]);
  // No stateful client was ever asked for these: what is there is no answer to a server.
  if (takesInput(request.method)) changes.push(['inputResponses', null], ['requestState', null]);
  return editBody(request, changes, 'stateless');
}

/** The plain request is small; in a large one five searches cost more than they save. */
const MAX_PLAIN_BYTES = 2048;
/** What a request can hold that has to be changed or looked at closely; with a backslash, any of it under other letters. */
const NOT_PLAIN = ['_meta', 'task', 'inputResponses', 'requestState', '\\'].map((text) => Buffer.from(text));

/** Most requests have nothing in them that is to be changed, only their `_meta` to be added. */
function isPlain(bytes: Buffer, start: number, end: number): boolean {
  // An object with a first member right behind its brace.
  if (end - start > MAX_PLAIN_BYTES || bytes[start] !== 0x7b || bytes[start + 1] !== 0x22) return false;
  const body = bytes.subarray(start, end);
  return NOT_PLAIN.every((text) => !body.includes(text));
}

interface ClientFacts {
  readonly logLevel: string | null;
  readonly capabilities: string;
  readonly info: string | null;
  readonly member: Buffer;
}

/** What each client's `_meta` came to last: a session says the same in all its requests. */
const SAID = new WeakMap<object, ClientFacts>();

function metaMember(client: Pick<ClientProfile, 'capabilities' | 'info'>, logLevel: string | null): Buffer {
  const last = SAID.get(client);
  const { capabilities, info } = client;
  if (last?.logLevel === logLevel && last.capabilities === capabilities && last.info === info) return last.member;
  const [, meta] = metaChange(EMPTY, WHOLE_EMPTY, clientMeta(client, logLevel))!;
  const member = Buffer.from(`"_meta":${meta},`);
  SAID.set(client, { logLevel, capabilities, info, member });
  return member;
}

/**
 * A notification in stateless vocabulary, a server's for a stateless client or a client's for a stateless server; null
 * when 2026-07-28 has none such. Whoever delivers it on a subscription tags it with the subscription's id.
 */
export function notificationToStateless(notification: Message): Message | null {
  if (notification.era === 'stateless') return notification;
  if (UNKNOWN_NOTIFICATIONS.has(notification.method)) return null;
  return spliceMessage(notification, [], 'stateless');
}
