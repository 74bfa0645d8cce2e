import { duplicateKey, keyIs } from './fields.ts';
import { validString, validValue } from './grammar.ts';
import { skipSpace } from './skip.ts';

let repeated = '';

/** The key that the `params` validated last (or its `_meta`) held twice, else empty. */
export function repeatedParam(): string {
  return repeated;
}

/**
 * Validates `params`, and sees to it that neither it nor its `_meta` repeats a key: the gateway would decide by one
 * of them and the server by the other.
 */
export function validParams(bytes: Buffer, start: number): number {
  repeated = '';
  return validMembers(bytes, start, 2, true);
}

function validMembers(bytes: Buffer, start: number, level: number, isParams: boolean): number {
  // Two keys of equal signature may be the same; then the slow comparison decides. 32 signatures fit into the mask.
  let signatures = 0;
  let suspicious = false;
  let at = skipSpace(bytes, start + 1);
  if (bytes[at] === 0x7d) return at + 1;
  for (;;) {
    const keyStart = skipSpace(bytes, at);
    if (bytes[keyStart] !== 0x22) return -1;
    const keyEnd = validString(bytes, keyStart);
    if (keyEnd < 0) return -1;
    at = skipSpace(bytes, keyEnd);
    if (bytes[at] !== 0x3a) return -1;
    const signature = 1 << ((bytes[keyStart + 1]! ^ (keyEnd - keyStart)) & 31);
    // An escape in a key can hide what it names.
    if ((signatures & signature) !== 0 || hasEscape(bytes, keyStart, keyEnd)) suspicious = true;
    signatures |= signature;
    const value = skipSpace(bytes, at + 1);
    at =
      isParams && bytes[value] === 0x7b && keyIs(bytes, keyStart, keyEnd, '_meta')
        ? validMembers(bytes, value, level + 1, false)
        : validValue(bytes, value, level);
    if (at < 0) return -1;
    at = skipSpace(bytes, at);
    if (bytes[at] === 0x2c) at++;
    else if (bytes[at] === 0x7d) break;
    else return -1;
  }
  at++;
  if (suspicious) repeated ||= duplicateKey(bytes, start, at) ?? '';
  return at;
}

function hasEscape(bytes: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i] === 0x5c) return true;
  return false;
}
