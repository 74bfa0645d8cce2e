import type { Message } from '../../model/message.ts';
import { field, type Range } from '../../protocol/fields.ts';

/** Longest id of ours that can come back: all safe integers have at most 16 digits. */
const MAX_DIGITS = 15;

/**
 * Reads an id of our own from the lexeme a server sent back. -1 for everything that is not exactly the integer we
 * wrote: strings, `7.0`, leading zeros (F10: a wrong id is dropped, never guessed at).
 */
export function ownId(bytes: Buffer, start: number, end: number): number {
  const length = end - start;
  if (start < 0 || length < 1 || length > MAX_DIGITS || bytes[start] === 0x30) return -1;
  let id = 0;
  for (let at = start; at < end; at++) {
    const digit = bytes[at]! - 0x30;
    if (digit < 0 || digit > 9) return -1;
    id = id * 10 + digit;
  }
  return id;
}

/** A member of the body, where there is a body. */
export function bodyField(message: Message, key: string): Range | null {
  return message.bodyStart < 0 ? null : field(message.bytes, message.bodyStart, message.bodyEnd, key);
}

/** The code of a JSON-RPC error; 0 when it has none. */
export function errorCode(message: Message): number {
  const range = bodyField(message, 'code');
  return range === null ? 0 : Number(message.bytes.toString('latin1', range.start, range.end)) || 0;
}
