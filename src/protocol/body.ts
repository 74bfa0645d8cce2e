import type { Message } from '../model/message.ts';
import type { Server } from '../model/server.ts';
import { field, fieldAt, type Range, stringValue } from './fields.ts';
import { RELATED_TASK_KEY, SUBSCRIPTION_ID_KEY } from './meta-keys.ts';
import { editBody, metaChange } from './splice.ts';

/** A member of a message's body; null without the member or a body. */
export function bodyField(message: Message, key: string): Range | null {
  return message.bodyStart < 0 ? null : field(message.bytes, message.bodyStart, message.bodyEnd, key);
}

/** The member exactly as written, byte by byte, like `Message.id`. */
export function bodyLexeme(message: Message, key: string): string | null {
  const range = bodyField(message, key);
  return range === null ? null : message.bytes.toString('latin1', range.start, range.end);
}

export function bodyString(message: Message, key: string): string | null {
  return stringValue(message.bytes, bodyField(message, key));
}

const MAX_REASON_LENGTH = 1_000;

/** Why the sender of a `notifications/cancelled` cancels, in its own words. */
export function cancellationReason(cancelled: Message): string {
  const given = bodyString(cancelled, 'reason')?.slice(0, MAX_REASON_LENGTH).toWellFormed() ?? '';
  return given === '' ? 'the client cancelled the request' : given;
}

export function errorCode(message: Message): number {
  return Number(bodyLexeme(message, 'code')) || 0;
}

/** The progress token as written: of a request the sender's, of `notifications/progress` the one that it reports on. */
export function progressToken(message: Message): Range | null {
  const { bytes, bodyStart, bodyEnd, kind, method } = message;
  if (!mayHaveMember(message, TOKEN)) return null;
  if (kind === 'request') return fieldAt(bytes, bodyStart, bodyEnd, REQUEST_TOKEN);
  return method === 'notifications/progress' ? field(bytes, bodyStart, bodyEnd, 'progressToken') : null;
}

/** False if no member of the body has this name: a native search, cheaper than a scan. An escape could hide the name. */
export function mayHaveMember({ bytes, bodyStart }: Message, name: Buffer): boolean {
  return bodyStart >= 0 && (bytes.includes(name, bodyStart) || bytes.includes(BACKSLASH, bodyStart));
}

/** The `subscriptions/listen` that a notification, or the answer that ends it, belongs to (patterns/subscriptions). */
export function subscriptionId(message: Message): Range | null {
  if (message.bodyStart < 0) return null;
  return fieldAt(message.bytes, message.bodyStart, message.bodyEnd, SUBSCRIPTION);
}

const TOKEN = Buffer.from('progressToken');
const BACKSLASH = 0x5c;
const REQUEST_TOKEN = ['_meta', 'progressToken'];
const SUBSCRIPTION = ['_meta', SUBSCRIPTION_ID_KEY];

/** The timeout of a tool, else that of its server, in milliseconds; 0 for none. */
export function timeoutOf({ timeoutMs, toolTimeoutMs }: Server, request: Message): number {
  if (toolTimeoutMs.size === 0 || request.method !== 'tools/call') return timeoutMs;
  return toolTimeoutMs.get(nameIn(request) ?? '') ?? timeoutMs;
}

export function nameIn(request: Message): string | null {
  return bodyString(request, 'name');
}

/** Associates a message with a task of 2025-11-25 (utilities/tasks §Associating Task-Related Messages). */
const PATH = ['_meta', RELATED_TASK_KEY, 'taskId'];

/** The task that the message belongs to; null for none. */
export function relatedTask(message: Message): string | null {
  const { bytes, bodyStart, bodyEnd } = message;
  if (bodyStart < 0 || !bytes.includes('related-task')) return null;
  return stringValue(bytes, fieldAt(bytes, bodyStart, bodyEnd, PATH));
}

/** The message, associated with this task; with none if the id is null. */
export function withRelatedTask(message: Message, taskId: string | null): Message {
  const { bytes, bodyStart: start, bodyEnd: end } = message;
  if (start < 0 || bytes[start] !== 0x7b) return message;
  const json = taskId === null ? null : JSON.stringify({ taskId });
  const meta = metaChange(bytes, { start, end }, [[RELATED_TASK_KEY, json]]);
  if (meta === null) return message;
  return editBody(message, [meta]);
}
