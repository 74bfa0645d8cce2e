import type { Socket } from 'node:net';
import { clientErrorRefusal } from '../context/client-error-refusal.ts';
import { rawRefusal, renderRefusal } from '../context/refusal.ts';
import type { RequestContext } from './request-context.ts';

const CONTEXT = Symbol('request context');
interface SocketWithContext {
  [CONTEXT]?: RequestContext;
}

/** The request that came last on a connection, which decides what may be said when an error follows. */
export function noteLast(socket: Socket, context: RequestContext): void {
  (socket as SocketWithContext)[CONTEXT] = context;
}

/**
 * Answers a malformed request and ends the connection; without an answer where that of an earlier request is still due.
 */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  const context = (socket as SocketWithContext)[CONTEXT];
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
