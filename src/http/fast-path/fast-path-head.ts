import type { IncomingHttpHeaders } from 'node:http';
import { SMALL_BODY_BYTES } from '../context/body-budget.ts';
import { fieldValue, nameEnd } from '../header-line.ts';

/** The head of a plain request. Immutable, and reused for the next request that begins with the same bytes. */
export interface FastPathHead {
  /** As received, with the empty line at its end; only ASCII, so its length is its number of bytes. */
  readonly text: string;
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<IncomingHttpHeaders>;
  readonly headerLines: number;
  readonly bodyBytes: number;
}

const MAX_HEAD = 8 * 1024;
const MAX_LINES = 64;
const END = Buffer.from('\r\n\r\n');
const REQUEST_LINE = /^(POST|GET|DELETE) (\/[\x21-\x7e]*) HTTP\/1\.1\r\n/;
const NOT_PLAIN = /[^\t\r\n\x20-\x7e]/;
const LENGTH = /^[0-9]{1,5}$/;
/** Headers that change how a request or the connection continues, or that `node:http` represents differently. */
const NOT_FOR_US = new Set(['transfer-encoding', 'expect', 'upgrade', 'trailer', 'http2-settings', 'set-cookie']);

/**
 * Reads the head that begins at `from`. Null for a request that is not plain, which `node:http` handles. Plain is a POST
 * with a length, or a GET or DELETE without a body, of HTTP/1.1, in ASCII, without a repeated header and without one that
 * asks more of the connection than keep-alive.
 */
export function readFastPathHead(bytes: Buffer, from: number): FastPathHead | null {
  const end = bytes.indexOf(END, from);
  if (end < 0 || end - from > MAX_HEAD) return null;
  const text = bytes.toString('latin1', from, end + END.length);
  const line = REQUEST_LINE.exec(text);
  if (line === null || NOT_PLAIN.test(text)) return null;
  const [first, method, target] = line as unknown as [string, string, string];
  const headers: IncomingHttpHeaders = {};
  let headerLines = 0;
  let bodyBytes = -1;
  const last = text.length - END.length;
  for (let position = first.length; position < last; ) {
    const lineEnd = text.indexOf('\r\n', position);
    const colon = nameEnd(text, position, lineEnd);
    if (colon < 0 || ++headerLines > MAX_LINES) return null;
    const name = text.slice(position, colon).toLowerCase();
    const value = fieldValue(text, colon + 1, lineEnd);
    // `in` also finds inherited names: a header such as `constructor` is not plain.
    if (value === null || name in headers || NOT_FOR_US.has(name)) return null;
    if (name === 'content-length') {
      if (!LENGTH.test(value)) return null;
      bodyBytes = Number(value);
    } else if (name === 'connection' && value.toLowerCase() !== 'keep-alive') return null;
    headers[name] = value;
    position = lineEnd + 2;
  }
  // Longer bodies go to `node:http`: here a body is buffered completely before the caller is authenticated.
  if ((method === 'POST') !== bodyBytes >= 0 || bodyBytes > SMALL_BODY_BYTES) return null;
  return { text, method, target, headers, headerLines, bodyBytes: Math.max(0, bodyBytes) };
}
