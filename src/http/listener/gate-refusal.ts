import type { Socket } from 'node:net';
import { destroyLater } from '../context/destroy-later.ts';
import type { HttpContext } from '../context/http-context.ts';
import type { Refusal } from '../context/refusal.ts';
import { clientErrorRefusal, rawRefusal, renderRefusal } from '../context/refusal.ts';
import type { RequestContext } from './request-context.ts';
import type { RequestGate } from './request-gate.ts';
import { MAX_HEADERS } from './request-headers.ts';
import { MAX_TARGET_BYTES, pathProblem } from './route-table.ts';

const KNOWN_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']);

/** The checks of a request's head that do not depend on its route. */
export function gateRefusal(http: HttpContext, gate: RequestGate): Refusal | null {
  if (http.target.length > MAX_TARGET_BYTES) {
    return { status: 414, code: 'target_too_long', message: `the request target is longer than ${MAX_TARGET_BYTES}` };
  }
  if (http.headerLines > MAX_HEADERS) {
    return { status: 431, code: 'too_many_headers', message: `more than ${MAX_HEADERS} headers` };
  }
  const repeated = http.repeatedHeader;
  if (repeated !== null) {
    // A repeated session id is only malformed; the other headers repeat the body, with which two values cannot both agree.
    const ofMcp = repeated.startsWith('mcp-') && repeated !== 'mcp-session-id';
    const code = ofMcp ? 'repeated_mcp_header' : 'repeated_header';
    return { status: 400, code, message: `the header ${repeated} came more than once` };
  }
  const coding = http.headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    return { status: 501, code: 'coding_unknown', message: 'no transfer coding but chunked is known' };
  }
  const authority = gate.authority(http);
  if (authority === undefined || authority === '') {
    return { status: 400, code: 'host_missing', message: 'the Host header is missing' };
  }
  if (!gate.allowsHost(authority, http)) {
    return { status: 403, code: 'host_not_allowed', message: 'this host name is not in `allowedHosts`' };
  }
  const origin = http.headers.origin;
  if (origin !== undefined && !gate.allowsOrigin(origin)) {
    return { status: 403, code: 'origin_not_allowed', message: 'this origin is not in `allowedOrigins`' };
  }
  return null;
}

/** Why no route matches this method and path. `allow`: the methods of the route; null without a route. */
export function unroutable(path: string, method: string, allow: string | null): Refusal {
  if (!KNOWN_METHODS.has(method)) {
    return { status: 501, code: 'method_unknown', message: 'this method is not implemented' };
  }
  if (allow !== null) {
    return { status: 405, code: 'method_not_allowed', message: `only ${allow} here`, headers: ['Allow', allow] };
  }
  const problem = pathProblem(path);
  if (problem !== null) return { status: 400, code: 'path_malformed', message: problem };
  return {
    status: 404,
    code: 'not_found',
    message: 'there is nothing at this path; MCP is at /mcp of the MCP listener',
  };
}

const CONTEXT = Symbol('request context');
interface SocketWithContext {
  [CONTEXT]?: RequestContext;
}

/** Notes the last request of a connection, which decides how a later error is answered. */
export function noteLast(socket: Socket, context: RequestContext): void {
  (socket as SocketWithContext)[CONTEXT] = context;
}

/** Answers a malformed request and ends the connection; without an answer if that of an earlier request is pending. */
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
  destroyLater(socket);
}
