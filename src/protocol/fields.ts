/**
 * Single members of JSON objects as half-open byte ranges, strings with their quotes. Expects bytes that `scan` accepted;
 * finds nothing in other types. Of repeated keys it finds the first: see `duplicateKey`.
 */
import { skipSpace, skipString, skipValue } from './skip.ts';

export interface Range {
  readonly start: number;
  readonly end: number;
}

export interface Entry {
  readonly keyStart: number;
  readonly keyEnd: number;
  readonly valueStart: number;
  readonly valueEnd: number;
}

export function fullRange(bytes: Buffer): Range {
  return { start: 0, end: bytes.length };
}

export function isObject(bytes: Buffer, range: Range | null): range is Range {
  return range !== null && bytes[range.start] === 0x7b;
}

/** Whether the key lexeme (quotes included) names `key`, including escapes. */
export function keyIs(bytes: Buffer, keyStart: number, keyEnd: number, key: string): boolean {
  const length = keyEnd - keyStart - 2;
  if (length === key.length) {
    let i = 0;
    while (i < length && bytes[keyStart + 1 + i] === key.charCodeAt(i)) i++;
    if (i === length) return true;
  }
  // A longer lexeme may be the same name, written with escapes or with characters beyond ASCII.
  if (length <= key.length || length > 6 * key.length) return false;
  for (let i = keyStart + 1; i < keyEnd - 1; i++) {
    const c = bytes[i]!;
    if (c === 0x5c || c >= 0x80) return decodeString(bytes, keyStart, keyEnd) === key;
  }
  return false;
}

export function field(bytes: Buffer, start: number, end: number, key: string): Range | null {
  let at = firstMember(bytes, start, end);
  while (at >= 0) {
    const keyEnd = skipString(bytes, at, end);
    const value = keyEnd < 0 ? -1 : valueAfter(bytes, keyEnd, end);
    const valueEnd = value < 0 ? -1 : skipValue(bytes, value, end);
    if (valueEnd < 0) return null;
    if (keyIs(bytes, at, keyEnd, key)) return { start: value, end: valueEnd };
    at = nextMember(bytes, valueEnd, end);
  }
  return null;
}

/** Like `field`, along a path of object members. */
export function fieldAt(bytes: Buffer, start: number, end: number, path: readonly string[]): Range | null {
  let range: Range | null = { start, end };
  for (const key of path) {
    range = field(bytes, range.start, range.end, key);
    if (range === null) return null;
  }
  return range;
}

/** The values of several members, in the order of `keys`, in one pass. */
export function fields(bytes: Buffer, start: number, end: number, keys: readonly string[]): (Range | null)[] {
  const found: (Range | null)[] = keys.map(() => null);
  let missing = keys.length;
  let at = firstMember(bytes, start, end);
  while (at >= 0 && missing > 0) {
    const keyEnd = skipString(bytes, at, end);
    const value = keyEnd < 0 ? -1 : valueAfter(bytes, keyEnd, end);
    const valueEnd = value < 0 ? -1 : skipValue(bytes, value, end);
    if (valueEnd < 0) break;
    for (let i = 0; i < keys.length; i++) {
      if (found[i] !== null || !keyIs(bytes, at, keyEnd, keys[i]!)) continue;
      found[i] = { start: value, end: valueEnd };
      missing--;
    }
    at = nextMember(bytes, valueEnd, end);
  }
  return found;
}

/** The members of an object, in order. None for a value of another type. */
export function* entries(bytes: Buffer, start: number, end: number): Generator<Entry, void, undefined> {
  let at = firstMember(bytes, start, end);
  while (at >= 0) {
    const keyEnd = skipString(bytes, at, end);
    const valueStart = keyEnd < 0 ? -1 : valueAfter(bytes, keyEnd, end);
    const valueEnd = valueStart < 0 ? -1 : skipValue(bytes, valueStart, end);
    if (valueEnd < 0) return;
    yield { keyStart: at, keyEnd, valueStart, valueEnd };
    at = nextMember(bytes, valueEnd, end);
  }
}

/** The elements of an array, in order. None for a value of another type. */
export function* elements(bytes: Buffer, start: number, end: number): Generator<Range, void, undefined> {
  if (bytes[start] !== 0x5b) return;
  let at = skipSpace(bytes, start + 1);
  while (at < end && bytes[at] !== 0x5d) {
    const valueEnd = skipValue(bytes, at, end);
    if (valueEnd < 0) return;
    yield { start: at, end: valueEnd };
    at = skipSpace(bytes, valueEnd);
    if (bytes[at] !== 0x2c) return;
    at = skipSpace(bytes, at + 1);
  }
}

/** The first repeated key, or null. Parsers disagree on which one counts, so refuse such objects from untrusted peers. */
export function duplicateKey(bytes: Buffer, start: number, end: number): string | null {
  const seen = new Set<string>();
  for (const entry of entries(bytes, start, end)) {
    const key = decodeString(bytes, entry.keyStart, entry.keyEnd);
    if (key === null) continue;
    if (seen.has(key)) return key;
    seen.add(key);
  }
  return null;
}

/** Decodes a JSON string; null if the range is not a well-formed string. */
export function stringValue(bytes: Buffer, range: Range | null): string | null {
  return range === null ? null : decodeString(bytes, range.start, range.end);
}

export function text(bytes: Buffer, range: Range): string {
  return bytes.toString('utf8', range.start, range.end);
}

export function decodeString(bytes: Buffer, start: number, end: number): string | null {
  if (end - start < 2 || bytes[start] !== 0x22 || bytes[end - 1] !== 0x22) return null;
  let plain = true;
  for (let i = start + 1; i < end - 1 && plain; i++) {
    const c = bytes[i]!;
    plain = c >= 0x20 && c < 0x80 && c !== 0x5c && c !== 0x22;
  }
  if (plain) return bytes.toString('latin1', start + 1, end - 1);
  try {
    return JSON.parse(bytes.toString('utf8', start, end)) as string;
  } catch {
    return null;
  }
}

/** Index of the first key's quote, or -1. */
export function firstMember(bytes: Buffer, start: number, end: number): number {
  if (bytes[start] !== 0x7b) return -1;
  const at = skipSpace(bytes, start + 1);
  return at < end && bytes[at] === 0x22 ? at : -1;
}

/** Index of the next key's quote after a value's end, or -1. */
export function nextMember(bytes: Buffer, at: number, end: number): number {
  at = skipSpace(bytes, at);
  if (at >= end || bytes[at] !== 0x2c) return -1;
  at = skipSpace(bytes, at + 1);
  return at < end && bytes[at] === 0x22 ? at : -1;
}

/** Index of the value's first byte after a key's end, or -1. */
export function valueAfter(bytes: Buffer, at: number, end: number): number {
  at = skipSpace(bytes, at);
  if (at >= end || bytes[at] !== 0x3a) return -1;
  at = skipSpace(bytes, at + 1);
  return at < end ? at : -1;
}
