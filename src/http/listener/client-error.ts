import type { Socket } from 'node:net';
import { type Refusal, rawRefusal, renderRefusal } from './refusal.ts';
import type { RequestContext } from './request-context.ts';

const CONTEXT = Symbol('request context');
interface Carrier {
  [CONTEXT]?: RequestContext;
}

/** The request that came last on a connection, which decides what may be said when an error follows. */
export function noteLast(socket: Socket, context: RequestContext): void {
  (socket as Carrier)[CONTEXT] = context;
}

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

/**
 * The one answer to a malformed request, then the end of the connection. Nothing is said where an earlier request's
 * answer is still due or under way: the client could not tell whose it is.
 */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  const context = (socket as Carrier)[CONTEXT];
  const pending = context?.unfinished === true && !context.readingBody;
  if (!socket.writable || error.code === 'ECONNRESET' || error.code === 'EPIPE' || pending) {
    socket.destroy();
    return;
  }
  if (context?.readingBody === true) {
    context.refuseAndClose(clientErrorRefusal(error.code));
    return;
  }
  socket.end(rawRefusal(clientErrorRefusal(error.code), renderRefusal));
  const timer = setTimeout(() => socket.destroy(), 1_000);
  timer.unref();
  socket.once('close', () => clearTimeout(timer));
}
