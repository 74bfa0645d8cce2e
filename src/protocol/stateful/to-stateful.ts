import type { Message } from '../../model/message.ts';
import { type Change, editBody, metaChange } from '../edit-object.ts';
import {
  CLIENT_CAPABILITIES_KEY,
  CLIENT_INFO_KEY,
  LOG_LEVEL_KEY,
  PROTOCOL_VERSION_KEY,
  SERVER_INFO_KEY,
  SUBSCRIPTION_ID_KEY,
} from '../meta-keys.ts';
import { spliceMessage } from '../splice.ts';

/** The four keys with which a stateless request says all of itself (2026-07-28 basic §_meta). */
const REQUEST_KEYS: readonly Change[] = [
  [PROTOCOL_VERSION_KEY, null],
  [CLIENT_INFO_KEY, null],
  [CLIENT_CAPABILITIES_KEY, null],
  [LOG_LEVEL_KEY, null],
];

/** Notifications of 2026-07-28 that a stateful client has no use for. */
const UNKNOWN_NOTIFICATIONS: ReadonlySet<string> = new Set([
  'notifications/subscriptions/acknowledged',
  'notifications/tasks',
]);

/**
 * A request in stateful vocabulary: without the four keys of `_meta` that the session has said already, and without
 * what belongs to `input_required` rounds. The rest of `_meta` (trace context, progress token, …) stays.
 */
export function toStateful(request: Message): Message {
  if (request.era === 'stateful') return request;
  return editedBody(request, REQUEST_KEYS, [
    ['inputResponses', null],
    ['requestState', null],
  ]);
}

/** A server's notification for a stateful client; null when that client's revisions have no such notification. */
export function notificationToStateful(notification: Message): Message | null {
  if (notification.era === 'stateful') return notification;
  if (UNKNOWN_NOTIFICATIONS.has(notification.method)) return null;
  return editedBody(
    notification,
    [
      [SUBSCRIPTION_ID_KEY, null],
      [SERVER_INFO_KEY, null],
    ],
    [],
  );
}

function editedBody(message: Message, metaChanges: readonly Change[], changes: readonly Change[]): Message {
  const { bytes, bodyStart: start, bodyEnd: end } = message;
  if (start < 0) return spliceMessage(message, [], 'stateful');
  const meta = metaChange(bytes, { start, end }, metaChanges);
  const all = meta === null ? changes : [meta, ...changes];
  return editBody(message, all, 'stateful');
}
