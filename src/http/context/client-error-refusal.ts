import type { Refusal } from './refusal.ts';

/** What llhttp and Node say of bytes that are no acceptable request, as an answer. */
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
