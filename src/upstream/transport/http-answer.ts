const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Whether the bytes are a JSON-RPC answer (`result` or `error`) rather than a request or notification: what a reply
 * stream must know of its messages to tell its end from its loss. Looks at the first members only and never into a
 * `result`, so the size of the answer does not matter. A batch is judged by its first element. What is not
 * recognisable counts as no answer; the receiver will complain of it.
 */
export function isAnswer(bytes: Buffer): boolean {
  let at = skipSpace(bytes, 0);
  if (bytes[at] === OPEN_BRACKET) at = skipSpace(bytes, at + 1);
  if (bytes[at] !== OPEN_BRACE) return false;
  at = skipSpace(bytes, at + 1);
  while (bytes[at] === QUOTE) {
    const keyEnd = bytes.indexOf(QUOTE, at + 1);
    if (keyEnd < 0) return false;
    const key = bytes.latin1Slice(at + 1, keyEnd);
    if (key === 'result' || key === 'error') return true;
    if (key === 'method') return false;
    at = skipSpace(bytes, keyEnd + 1);
    if (bytes[at] !== COLON) return false;
    at = skipValue(bytes, skipSpace(bytes, at + 1));
    if (bytes[at] !== COMMA) return false;
    at = skipSpace(bytes, at + 1);
  }
  return false;
}

function skipSpace(bytes: Buffer, at: number): number {
  while (at < bytes.length && bytes[at]! <= SPACE) at++;
  return at;
}

/** Offset of what follows the value (white space skipped). Balanced brackets outside strings; no recursion. */
function skipValue(bytes: Buffer, at: number): number {
  let depth = 0;
  while (at < bytes.length) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      at = skipString(bytes, at);
      continue;
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
    else if (byte === CLOSE_BRACE || byte === 0x5d) {
      if (depth === 0) return at;
      depth--;
    } else if (byte === COMMA && depth === 0) return at;
    at++;
  }
  return at;
}

/** Offset behind the closing quote. */
function skipString(bytes: Buffer, at: number): number {
  let end = at;
  for (;;) {
    end = bytes.indexOf(QUOTE, end + 1);
    if (end < 0) return bytes.length;
    let slashes = 0;
    while (bytes[end - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
}
