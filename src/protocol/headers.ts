/**
 * Values of `Mcp-Name` and `Mcp-Param-*`: visible ASCII, else `=?base64?…?=` of UTF-8 (2026-07-28, §Value Encoding).
 */
import { isUtf8 } from 'node:buffer';

/** Request headers with lower-case names, as node:http gives them (repeated ones joined with a comma). */
export interface WireHeaders {
  readonly [name: string]: string | readonly string[] | undefined;
}

const PREFIX = '=?base64?';
const SUFFIX = '?=';

/** Longest value that is decoded: refused before any work is done on it (proto:H7). */
export const MAX_HEADER_VALUE = 16 * 1024;

const CANONICAL_BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** One header's value with optional white space cut off (RFC 9110 §5.5); null when it is absent. */
export function headerValue(headers: WireHeaders, name: string): string | null {
  const value = headers[name];
  if (value === undefined) return null;
  return trimOws(typeof value === 'string' ? value : value.join(', '));
}

/** The text that a header value encodes; null when it is oversize, no header text, or badly encoded. */
export function decodeHeaderValue(value: string): string | null {
  if (value.length > MAX_HEADER_VALUE) return null;
  const raw = trimOws(value);
  if (!isSentinel(raw)) return isFieldText(raw) ? raw : null;
  const base64 = raw.slice(PREFIX.length, raw.length - SUFFIX.length);
  if (!CANONICAL_BASE64.test(base64)) return null;
  const bytes = Buffer.from(base64, 'base64');
  // Bits that the last character carries beyond the last byte must be zero: one value, one spelling.
  if (!isUtf8(bytes) || bytes.toString('base64') !== base64) return null;
  return bytes.toString('utf8');
}

/** The header value for a text. The empty text is encoded too, because empty header lines get lost on the way. */
export function encodeHeaderValue(text: string): string {
  if (text !== '' && !isSentinel(text) && isFieldText(text) && trimOws(text) === text) return text;
  return `${PREFIX}${Buffer.from(text).toString('base64')}${SUFFIX}`;
}

function isSentinel(value: string): boolean {
  return value.length >= PREFIX.length + SUFFIX.length && value.startsWith(PREFIX) && value.endsWith(SUFFIX);
}

/** Visible ASCII, space and tab: what a field value may hold without being obsolete or an injection. */
export function isFieldText(value: string): boolean {
  for (let i = 0; i < value.length; i++) {
    const c = value.charCodeAt(i);
    if ((c < 0x20 && c !== 0x09) || c > 0x7e) return false;
  }
  return true;
}

function trimOws(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isOws(value.charCodeAt(start))) start++;
  while (end > start && isOws(value.charCodeAt(end - 1))) end--;
  return start === 0 && end === value.length ? value : value.slice(start, end);
}

function isOws(c: number): boolean {
  return c === 0x20 || c === 0x09;
}
