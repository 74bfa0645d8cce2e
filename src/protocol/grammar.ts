/**
 * RFC 8259 on bytes: accepts what `JSON.parse` accepts, except for the nesting limit. The caller checks UTF-8, except
 * of `isValidJson`. The other functions return the index after what they validated, or -1.
 */
import { isUtf8 } from 'node:buffer';
import { skipSpace } from './skip.ts';

const STRICT_MAX_DEPTH = 512;

const PLAIN = 0;
const QUOTE = 1;
const BACKSLASH = 2;

/** The meaning of a byte inside a string; 3 is a control character, which must be escaped. */
const IN_STRING = new Uint8Array(256).fill(3, 0, 0x20);
IN_STRING[0x22] = QUOTE;
IN_STRING[0x5c] = BACKSLASH;

const IN_OBJECT = 0x7d;
const IN_ARRAY = 0x5d;

/** Shared by all calls: validation is synchronous and never re-entered. */
const stack = new Uint8Array(STRICT_MAX_DEPTH + 1);

/** Whether the bytes are one well-formed JSON value in UTF-8. */
export function isValidJson(bytes: Buffer): boolean {
  if (!isUtf8(bytes)) return false;
  const end = validValue(bytes, skipSpace(bytes, 0), 0);
  return end >= 0 && skipSpace(bytes, end) === bytes.length;
}

/** `at` is on the opening quote. */
export function validString(bytes: Buffer, at: number): number {
  at++;
  for (;;) {
    let kind = IN_STRING[bytes[at]!];
    while (kind === PLAIN) kind = IN_STRING[bytes[++at]!];
    if (kind === QUOTE) return at + 1;
    if (kind !== BACKSLASH) return -1;
    at = validEscape(bytes, at + 1);
    if (at < 0) return -1;
  }
}

/** `at` is after the backslash. Lone surrogates pass unchanged. */
function validEscape(bytes: Buffer, at: number): number {
  switch (bytes[at]) {
    case 0x22:
    case 0x5c:
    case 0x2f:
    case 0x62:
    case 0x66:
    case 0x6e:
    case 0x72:
    case 0x74:
      return at + 1;
    case 0x75:
      for (let i = at + 1; i < at + 5; i++) if (!isHex(bytes[i])) return -1;
      return at + 5;
    default:
      return -1;
  }
}

function isHex(c: number | undefined): boolean {
  return c !== undefined && ((c >= 0x30 && c <= 0x39) || ((c | 0x20) >= 0x61 && (c | 0x20) <= 0x66));
}

function isDigit(c: number | undefined): boolean {
  return c !== undefined && c >= 0x30 && c <= 0x39;
}

function validNumber(bytes: Buffer, at: number): number {
  if (bytes[at] === 0x2d) at++;
  if (bytes[at] === 0x30) at++;
  else {
    if (!isDigit(bytes[at])) return -1;
    while (isDigit(bytes[at])) at++;
  }
  if (bytes[at] === 0x2e) {
    if (!isDigit(bytes[++at])) return -1;
    while (isDigit(bytes[at])) at++;
  }
  if (bytes[at] === 0x65 || bytes[at] === 0x45) {
    at++;
    if (bytes[at] === 0x2b || bytes[at] === 0x2d) at++;
    if (!isDigit(bytes[at])) return -1;
    while (isDigit(bytes[at])) at++;
  }
  return at;
}

function validScalar(bytes: Buffer, at: number): number {
  switch (bytes[at]) {
    case 0x22:
      return validString(bytes, at);
    case 0x74: // true
      return bytes[at + 1] === 0x72 && bytes[at + 2] === 0x75 && bytes[at + 3] === 0x65 ? at + 4 : -1;
    case 0x66: // false
      return bytes[at + 1] === 0x61 && bytes[at + 2] === 0x6c && bytes[at + 3] === 0x73 && bytes[at + 4] === 0x65
        ? at + 5
        : -1;
    case 0x6e: // null
      return bytes[at + 1] === 0x75 && bytes[at + 2] === 0x6c && bytes[at + 3] === 0x6c ? at + 4 : -1;
    default:
      return validNumber(bytes, at);
  }
}

/** `at` is before a member's key, with or without white space; returns the index after its colon. */
function validKey(bytes: Buffer, at: number): number {
  at = skipSpace(bytes, at);
  if (bytes[at] !== 0x22) return -1;
  at = validString(bytes, at);
  if (at < 0) return -1;
  at = skipSpace(bytes, at);
  return bytes[at] === 0x3a ? at + 1 : -1;
}

/** `at` is on the first byte of the value; `level` is the number of containers around it. */
export function validValue(bytes: Buffer, at: number, level: number): number {
  let depth = 0;
  for (;;) {
    const c = bytes[at];
    if (c === 0x7b || c === 0x5b) {
      if (level + depth >= STRICT_MAX_DEPTH) return -1;
      const closing = c === 0x7b ? IN_OBJECT : IN_ARRAY;
      const inside = skipSpace(bytes, at + 1);
      if (bytes[inside] !== closing) {
        stack[depth++] = closing;
        at = closing === IN_OBJECT ? validKey(bytes, inside) : inside;
        if (at < 0) return -1;
        at = skipSpace(bytes, at);
        continue;
      }
      at = inside + 1;
    } else {
      at = validScalar(bytes, at);
      if (at < 0) return -1;
    }
    // A value has ended at `at`: close containers, or step to the next value.
    for (;;) {
      if (depth === 0) return at;
      at = skipSpace(bytes, at);
      const next = bytes[at++];
      const closing = stack[depth - 1];
      if (next === 0x2c) {
        if (closing === IN_OBJECT) {
          at = validKey(bytes, at);
          if (at < 0) return -1;
        }
        at = skipSpace(bytes, at);
        break;
      }
      if (next !== closing) return -1;
      depth--;
    }
  }
}
