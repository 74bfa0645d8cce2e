import type { Message } from '../model/message.ts';
import { field, type Range, stringValue } from './fields.ts';

/** A member of a message's body; null where there is none, or no body. */
export function bodyField(message: Message, key: string): Range | null {
  return message.bodyStart < 0 ? null : field(message.bytes, message.bodyStart, message.bodyEnd, key);
}

/** The member exactly as written, byte by byte, as `Message.id` has an id. */
export function bodyLexeme(message: Message, key: string): string | null {
  const range = bodyField(message, key);
  return range === null ? null : message.bytes.toString('latin1', range.start, range.end);
}

/** The member where it is a string, decoded. */
export function bodyString(message: Message, key: string): string | null {
  return stringValue(message.bytes, bodyField(message, key));
}

/** The code of a JSON-RPC error; 0 when it has none. */
export function errorCode(message: Message): number {
  return Number(bodyLexeme(message, 'code')) || 0;
}
