import { wrapUri } from '../catalog/exposed-uris.ts';
import type { Era, Message } from '../model/message.ts';
import type { SubscribedResource } from '../model/ports.ts';
import { bodyField } from '../protocol/body.ts';
import { notification } from '../protocol/compose.ts';
import { type Range, stringValue } from '../protocol/fields.ts';
import { spliceMessage } from '../protocol/splice.ts';

const UPDATED = 'notifications/resources/updated';

export function isUpdate({ method }: Message): boolean {
  return method === UPDATED;
}

/** The notification that a resource may have changed. */
export function updateOf(uri: string, era: Era): Message {
  return notification(UPDATED, JSON.stringify({ uri }), era);
}

/** The resource that an update is about, and the byte range of its URI. */
export function updatedUri(update: Message): { readonly uri: string; readonly range: Range } | null {
  const range = bodyField(update, 'uri');
  const uri = stringValue(update.bytes, range);
  return range === null || uri === null ? null : { uri, range };
}

/** The update under the exposed URI. */
export function exposedUpdate(update: Message, exposed: (uri: string) => string): Message {
  const updated = updatedUri(update);
  const name = updated === null ? null : exposed(updated.uri);
  if (updated === null || name === updated.uri) return update;
  return spliceMessage(update, [{ ...updated.range, insert: JSON.stringify(name) }]);
}

/** The exposed URI of a subscribed resource or of a part of it: a part is wrapped if the client subscribed to a wrapped URI. */
export function exposedPart(own: string, { server, uri, exposed }: SubscribedResource): string {
  if (own === uri) return exposed;
  return exposed === uri ? own : wrapUri(server, own);
}

/**
 * Whether an update of `uri` concerns a subscription to `subscribed`: servers may name a part (2025-11-25 resources
 * §Subscriptions).
 */
export function isWithin(uri: string, subscribed: string): boolean {
  if (!uri.startsWith(subscribed)) return false;
  if (uri.length === subscribed.length || subscribed.endsWith('/')) return true;
  const next = uri[subscribed.length];
  return next === '/' || next === '#' || next === '?';
}
