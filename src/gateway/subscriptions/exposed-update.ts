import type { Message } from '../../model/message.ts';
import { bodyField } from '../../protocol/body.ts';
import { type Range, stringValue } from '../../protocol/fields.ts';
import { spliceMessage } from '../../protocol/splice.ts';

/** The resource that a `notifications/resources/updated` is about, and where it says so. */
export function updatedUri(message: Message): { readonly uri: string; readonly range: Range } | null {
  const range = bodyField(message, 'uri');
  const uri = stringValue(message.bytes, range);
  return range === null || uri === null ? null : { uri, range };
}

/** The notification under the URI that the client knows the resource by. */
export function exposedUpdate(message: Message, exposed: (uri: string) => string): Message {
  const updated = updatedUri(message);
  const name = updated === null ? null : exposed(updated.uri);
  if (updated === null || name === null || name === updated.uri) return message;
  return spliceMessage(message, [{ ...updated.range, insert: JSON.stringify(name) }]);
}
