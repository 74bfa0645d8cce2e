/** The tokens that tie messages to what they belong to. */
import type { Message } from '../model/message.ts';
import { field, fieldAt, type Range } from './fields.ts';
import { SUBSCRIPTION_ID_KEY } from './meta-keys.ts';

/**
 * The progress token: of a request the one its sender chose (`_meta.progressToken`), of a `notifications/progress`
 * the one it reports on. As written; tokens are strings or numbers and go back exactly.
 */
export function progressToken(message: Message): Range | null {
  const { bytes, bodyStart, bodyEnd, kind, method } = message;
  // Most messages name no token: a native search says so before the body is walked. An escape could hide the name.
  if (bodyStart < 0 || (!bytes.includes(TOKEN) && !bytes.includes(BACKSLASH))) return null;
  if (kind === 'request') return fieldAt(bytes, bodyStart, bodyEnd, REQUEST_TOKEN);
  return method === 'notifications/progress' ? field(bytes, bodyStart, bodyEnd, 'progressToken') : null;
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
