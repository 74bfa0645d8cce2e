/**
 * Finding the ends of JSON values in bytes, without validating what lies between: strings are hopped over with
 * native search, brackets are balanced. Every function returns the index after what it skipped, or -1.
 *
 * What passes here is safe to frame and to splice, not necessarily valid JSON; `grammar` is the validating twin.
 */

/** Deepest nesting taken from servers. Deeper documents crash recursive parsers of honest clients. */
export const RELAXED_MAX_DEPTH = 10_000;

/** Strings up to this length are walked; a native search costs more than it saves below it. */
const WALK = 48;

const PLAIN = 0;
const QUOTE = 1;
const OPEN = 2;
const CLOSE = 3;

const STRUCTURE = new Uint8Array(256);
STRUCTURE[0x22] = QUOTE;
STRUCTURE[0x7b] = OPEN;
STRUCTURE[0x5b] = OPEN;
STRUCTURE[0x7d] = CLOSE;
STRUCTURE[0x5d] = CLOSE;

/** Shared by all calls: skipping is synchronous and never re-entered. Holds the closing bracket awaited per level. */
const awaited = new Uint8Array(RELAXED_MAX_DEPTH + 1);

export function skipSpace(bytes: Buffer, at: number): number {
  let c = bytes[at];
  while (c === 0x20 || c === 0x0a || c === 0x0d || c === 0x09) c = bytes[++at];
  return at;
}

/** `at` stands on the opening quote. */
export function skipString(bytes: Buffer, at: number, end: number): number {
  at++;
  for (;;) {
    const walkEnd = Math.min(at + WALK, end);
    while (at < walkEnd) {
      const c = bytes[at++];
      if (c === 0x22) return at;
      if (c === 0x5c) at++;
    }
    if (at >= end) return -1;
    // Here `at` never stands inside an escape, so the parity of the backslashes since then decides.
    const quote = bytes.indexOf(0x22, at);
    if (quote < 0 || quote >= end) return -1;
    let back = quote;
    while (back > at && bytes[back - 1] === 0x5c) back--;
    at = quote + 1;
    if (((quote - back) & 1) === 0) return at;
  }
}

/** `at` stands on the first byte of the value (no white space before it). */
export function skipValue(bytes: Buffer, at: number, end: number): number {
  if (at >= end) return -1;
  const first = bytes[at]!;
  if (first === 0x22) return skipString(bytes, at, end);
  if (first === 0x7b || first === 0x5b) return skipContainer(bytes, at, end);
  return skipScalar(bytes, at, end);
}

function skipContainer(bytes: Buffer, at: number, end: number): number {
  let depth = 0;
  while (at < end) {
    const c = bytes[at]!;
    switch (STRUCTURE[c]) {
      case PLAIN:
        at++;
        break;
      case QUOTE:
        at = skipString(bytes, at, end);
        if (at < 0) return -1;
        break;
      case OPEN:
        if (depth === RELAXED_MAX_DEPTH) return -1;
        // `{` and `}`, `[` and `]` are two apart in ASCII.
        awaited[depth++] = c + 2;
        at++;
        break;
      default:
        if (awaited[--depth] !== c) return -1;
        at++;
        if (depth === 0) return at;
    }
  }
  return -1;
}

/** A number or literal: everything up to a delimiter, at least one byte, of the characters such lexemes have. */
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
