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
