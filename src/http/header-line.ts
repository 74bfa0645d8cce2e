/** 1 for the bytes of an RFC 9110 token. */
const TOKEN = new Uint8Array(256);
for (const c of "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
  TOKEN[c.charCodeAt(0)] = 1;

/** The index of the colon after a non-empty token; -1 if there is none, as in folded lines. */
export function nameEnd(text: string, start: number, end: number): number {
  for (let i = start; i < end; i++) {
    const c = text.charCodeAt(i);
    if (c === 0x3a) return i === start ? -1 : i;
    if (TOKEN[c] !== 1) return -1;
  }
  return -1;
}

/** The value of a header without the whitespace around it; null if it has control characters. */
export function fieldValue(text: string, start: number, end: number): string | null {
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return hasControl(text, start, end) ? null : text.slice(start, end);
}

export function hasControl(text: string, start: number, end: number): boolean {
  for (let i = start; i < end; i++) {
    const c = text.charCodeAt(i);
    if ((c < 0x20 && c !== 0x09) || c === 0x7f) return true;
  }
  return false;
}

function isBlank(c: number): boolean {
  return c === 0x20 || c === 0x09;
}
