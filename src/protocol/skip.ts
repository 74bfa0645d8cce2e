/**
 * Finds the ends of JSON values without validation: native search in strings, balanced brackets. Functions return the index
 * after the value, or -1. The result is safe to frame and splice; `grammar` validates.
 */

import { endOfEscaped } from './escaped-text.ts';

/** Deepest nesting accepted from servers. Deeper documents crash recursive parsers of clients. */
const RELAXED_MAX_DEPTH = 10_000;

/** Strings up to this length are scanned in a loop, which is faster than a native search for them. */
const WALK = 48;

/** With this much of the document left, a string with escapes is searched with SIMD. */
const ESCAPED = 1024;

/** The end of a string of this length is cached. */
const LONG = 256 * 1024;

/** The last long string, which each look-up of a member passes again. Offsets in its memory, which is written only once. */
const long = { memory: new WeakRef<ArrayBufferLike>(new ArrayBuffer(0)), from: 0, end: 0 };

/** Shared by all calls: skipping is synchronous and never re-entered. Holds the expected closing bracket per level. */
const awaited = new Uint8Array(RELAXED_MAX_DEPTH + 1);

/** Never reads beyond the end: a single such read would permanently deoptimise this loop, the busiest one. */
export function skipSpace(bytes: Buffer, at: number): number {
  const end = bytes.length;
  while (at < end) {
    const c = bytes[at]!;
    if (c > 0x20 || (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09)) return at;
    at++;
  }
  return at;
}

/** `at` is on the opening quote. */
export function skipString(bytes: Buffer, at: number, end: number): number {
  return endOfString(bytes, at + 1, end);
}

/** `at` is inside a string, and not inside an escape. */
function endOfString(bytes: Buffer, at: number, end: number): number {
  return end - at < LONG ? walkString(bytes, at, end) : endOfLong(bytes, at, end);
}

function endOfLong(bytes: Buffer, at: number, end: number): number {
  const { byteOffset, buffer } = bytes;
  if (long.from === byteOffset + at && long.end <= byteOffset + end && long.memory.deref() === buffer)
    return long.end - byteOffset;
  const found = walkString(bytes, at, end);
  if (found - at >= LONG) {
    long.memory = new WeakRef(buffer);
    long.from = byteOffset + at;
    long.end = byteOffset + found;
  }
  return found;
}

function walkString(bytes: Buffer, at: number, end: number): number {
  for (;;) {
    const walkEnd = Math.min(at + WALK, end);
    while (at < walkEnd) {
      const c = bytes[at++];
      if (c === 0x22) return at;
      if (c === 0x5c) at++;
    }
    if (at >= end) return -1;
    const quote = bytes.indexOf(0x22, at);
    if (quote < 0 || quote >= end) return -1;
    // `at` is not inside an escape, so the parity of the backslashes since then decides.
    let back = quote;
    while (back > at && bytes[back - 1] === 0x5c) back--;
    at = quote + 1;
    if (((quote - back) & 1) === 0) return at;
    // A text with one escape usually has more, so the rest of a long one is searched at once.
    const found = end - at >= ESCAPED ? endOfEscaped(bytes, at, end) : null;
    if (found !== null) return found;
  }
}

/** `at` is on the first byte of the value (no white space before it). */
export function skipValue(bytes: Buffer, at: number, end: number): number {
  if (at >= end) return -1;
  const first = bytes[at]!;
  if (first === 0x22) return skipString(bytes, at, end);
  if (first === 0x7b || first === 0x5b) return skipContainer(bytes, at, end);
  return skipScalar(bytes, at, end);
}

function skipContainer(bytes: Buffer, at: number, end: number): number {
  let depth = 0;
  for (;;) {
    let c = 0;
    // Brackets and braces are at and above 0x5b, digits, commas, colons and spaces below.
    while (at < end && (c = bytes[at]!) < 0x5b && c !== 0x22) at++;
    if (at >= end) return -1;
    if (c === 0x22) {
      // Most strings are short and without escapes: those end here, without a call.
      const walkEnd = Math.min(++at + WALK, end);
      while (at < walkEnd && (c = bytes[at]!) !== 0x22 && c !== 0x5c) at++;
      if (at < walkEnd && c === 0x22) at++;
      else if ((at = endOfString(bytes, at, end)) < 0) return -1;
    } else if (c === 0x7b || c === 0x5b) {
      if (depth === RELAXED_MAX_DEPTH) return -1;
      // `{` and `}`, `[` and `]` are two apart in ASCII.
      awaited[depth++] = c + 2;
      at++;
    } else {
      at++;
      if (c !== 0x7d && c !== 0x5d) continue;
      if (awaited[--depth] !== c) return -1;
      if (depth === 0) return at;
    }
  }
}

/** A number or literal: all bytes up to a delimiter, at least one, of the characters that such lexemes can have. */
function skipScalar(bytes: Buffer, at: number, end: number): number {
  const start = at;
  while (at < end) {
    const c = bytes[at]!;
    const digit = c >= 0x30 && c <= 0x39;
    const letter = (c | 0x20) >= 0x61 && (c | 0x20) <= 0x7a;
    if (!digit && !letter && c !== 0x2d && c !== 0x2b && c !== 0x2e) break;
    at++;
  }
  return at === start ? -1 : at;
}
