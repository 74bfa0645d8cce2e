import { fieldValue, hasControl, nameEnd } from '../header-line.ts';
import { ResponseHeaders } from './response-headers.ts';

/** How the body of a response is delimited. Lengths in bytes. */
export type Framing =
  | { readonly kind: 'none' | 'chunked' | 'until_close' }
  | { readonly kind: 'length'; readonly length: number };

export interface ResponseHead {
  readonly status: number;
  readonly headers: ResponseHeaders;
  readonly framing: Framing;
  /** Whether the connection may carry another request afterwards. */
  readonly keepAlive: boolean;
  /** The limit that `Keep-Alive: timeout=…` sets, in milliseconds; Infinity without one. */
  readonly keepAliveHintMs: number;
}

const NONE: Framing = { kind: 'none' };
const CHUNKED: Framing = { kind: 'chunked' };
const UNTIL_CLOSE: Framing = { kind: 'until_close' };

const MAX_HEADERS = 200;
const CONTENT_LENGTH = /^[0-9]{1,15}$/;

/**
 * Parses a response head (RFC 9112) without its empty line; returns an error as a text. Strict against request smuggling:
 * CRLF only, no folded lines, one Content-Length, never together with Transfer-Encoding, no coding but `chunked`.
 */
export function parseResponseHead(text: string, headRequest: boolean): ResponseHead | string {
  const firstEnd = text.indexOf('\r\n');
  const statusLine = firstEnd < 0 ? text : text.slice(0, firstEnd);
  const status = statusOf(statusLine);
  if (status < 0) return 'the status line is not HTTP/1.x';

  const pairs: string[] = [];
  let position = firstEnd < 0 ? text.length : firstEnd + 2;
  let length: string | null = null;
  let encoding: string | null = null;
  let connection = '';
  let keepAliveHintMs = Number.POSITIVE_INFINITY;
  while (position < text.length) {
    let end = text.indexOf('\r\n', position);
    if (end < 0) end = text.length;
    const colon = nameEnd(text, position, end);
    if (colon < 0) return 'a header line is malformed';
    const name = text.slice(position, colon).toLowerCase();
    const value = fieldValue(text, colon + 1, end);
    if (value === null) return 'a header value has control characters';
    if (name === 'content-length') {
      if (length !== null) return 'Content-Length is given twice';
      length = value;
    } else if (name === 'transfer-encoding') {
      if (encoding !== null) return 'Transfer-Encoding is given twice';
      encoding = value;
    } else if (name === 'connection') {
      connection = connection === '' ? value : `${connection},${value}`;
    } else if (name === 'keep-alive') {
      keepAliveHintMs = Math.min(keepAliveHintMs, hintMs(value));
    }
    pairs.push(name, value);
    if (pairs.length > MAX_HEADERS * 2) return `more than ${MAX_HEADERS} headers`;
    position = end + 2;
  }

  const http11 = statusLine.charCodeAt(7) === 0x31;
  const framing = framingOf(status, length, encoding, http11, headRequest);
  if (typeof framing === 'string') return framing;
  const keepAlive = http11 && framing !== UNTIL_CLOSE && (connection === '' || !hasToken(connection, 'close'));
  return { status, headers: new ResponseHeaders(pairs), framing, keepAlive, keepAliveHintMs };
}

function hintMs(value: string): number {
  const at = value.toLowerCase().indexOf('timeout=');
  const seconds = at < 0 ? Number.NaN : Number.parseInt(value.slice(at + 8), 10);
  return Number.isNaN(seconds) ? Number.POSITIVE_INFINITY : seconds * 1000;
}

function framingOf(
  status: number,
  length: string | null,
  encoding: string | null,
  http11: boolean,
  headRequest: boolean,
): Framing | string {
  if (encoding !== null) {
    if (length !== null) return 'both Content-Length and Transfer-Encoding are given';
    if (!http11) return 'Transfer-Encoding in an HTTP/1.0 response';
    if (encoding.toLowerCase() !== 'chunked') return 'Transfer-Encoding is not chunked';
  }
  if (length !== null && !CONTENT_LENGTH.test(length)) return 'Content-Length is not a number';
  if (headRequest || status === 204 || status === 304 || status < 200) return NONE;
  if (encoding !== null) return CHUNKED;
  if (length === null) return UNTIL_CLOSE;
  const bytes = Number(length);
  return bytes === 0 ? NONE : { kind: 'length', length: bytes };
}

/** `HTTP/1.0` or `HTTP/1.1`, a space, three digits, then nothing or a space and a reason. -1 for anything else. */
function statusOf(line: string): number {
  if (line.length < 12 || !line.startsWith('HTTP/1.') || line.charCodeAt(8) !== 0x20) return -1;
  const minor = line.charCodeAt(7);
  if (minor !== 0x30 && minor !== 0x31) return -1;
  let status = 0;
  for (let i = 9; i < 12; i++) {
    const digit = line.charCodeAt(i) - 0x30;
    if (digit < 0 || digit > 9) return -1;
    status = status * 10 + digit;
  }
  if (status < 100 || status > 599) return -1;
  if (line.length > 12 && (line.charCodeAt(12) !== 0x20 || hasControl(line, 13, line.length))) return -1;
  return status;
}

function hasToken(list: string, token: string): boolean {
  return list
    .toLowerCase()
    .split(',')
    .some((part) => part.trim() === token);
}
