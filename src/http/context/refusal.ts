import { nodeHttp } from '../node-http.ts';

/** An answer in place of that of an MCP handler. */
export interface Refusal {
  readonly status: number;
  /** Stable, in snake case, for programs. */
  readonly code: string;
  /** For people; never echoes the request. */
  readonly message: string;
  /** Extra headers, name and value alternating. */
  readonly headers?: readonly string[];
}

/** Set on every answer of every listener: a browser must not interpret it as a page or a script. */
export const NO_SNIFFING = ['X-Content-Type-Options', 'nosniff'] as const;

/** Makes the JSON body of a refusal. MCP routes render it as a JSON-RPC error. */
export type RefusalRenderer = (refusal: Refusal) => string;

export const renderRefusal: RefusalRenderer = ({ code, message }) => JSON.stringify({ error: { code, message } });

/** A whole response in bytes, for a socket on which there is no other way to answer; it closes the connection. */
export function rawRefusal(refusal: Refusal, render: RefusalRenderer): string {
  const body = render(refusal);
  let head = `HTTP/1.1 ${refusal.status} ${nodeHttp.STATUS_CODES[refusal.status] ?? 'Error'}\r\nContent-Type: application/json\r\n`;
  const headers = [...NO_SNIFFING, ...(refusal.headers ?? [])];
  for (let i = 0; i + 1 < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return `${head}Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`;
}

/** The answer to bytes that llhttp or Node rejects as a request. */
export function clientErrorRefusal(code: string | undefined): Refusal {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return { status: 431, code: 'headers_too_large', message: 'the request line and headers are too large' };
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return { status: 413, code: 'body_too_large', message: 'the chunk extensions are too large' };
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return { status: 408, code: 'request_timeout', message: 'the request was not complete in time' };
    case 'HPE_INVALID_VERSION':
      return { status: 505, code: 'version_not_supported', message: 'only HTTP/1.1 is served here' };
    default:
      return { status: 400, code: 'malformed_request', message: 'the request is not valid HTTP/1.1' };
  }
}
