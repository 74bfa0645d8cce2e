import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { MASK } from '../../model/secret.ts';
import { field, firstMember, nextMember, valueAfter } from '../../protocol/fields.ts';
import { skipSpace, skipString, skipValue } from '../../protocol/skip.ts';
import { answeredRequest } from './in-flight.ts';

/**
 * Whether the bytes are a JSON-RPC answer (`result` or `error`) rather than a request or notification: a reply stream needs
 * this to distinguish its end from its loss. Reads the first members only and never a `result`, so its cost does not depend on
 * the answer's size. A batch is judged by its first element. Unrecognisable bytes are not an answer; the receiver reports them.
 */
export function isAnswer(bytes: Buffer): boolean {
  const end = bytes.length;
  let start = skipSpace(bytes, 0);
  if (bytes[start] === 0x5b) start = skipSpace(bytes, start + 1);
  let at = firstMember(bytes, start, end);
  while (at >= 0) {
    const keyEnd = skipString(bytes, at, end);
    if (keyEnd < 0) return false;
    const key = bytes.toString('latin1', at + 1, keyEnd - 1);
    if (key === 'result' || key === 'error') return true;
    if (key === 'method') return false;
    const value = valueAfter(bytes, keyEnd, end);
    const valueEnd = value < 0 ? -1 : skipValue(bytes, value, end);
    at = valueEnd < 0 ? -1 : nextMember(bytes, valueEnd, end);
  }
  return false;
}

/** For the message of an error with the outcome UNKNOWN. */
export const MAY_HAVE_RUN = 'the request was sent and may have run';

/** The longest `Retry-After` that a call waits for (fault:F23). */
const MAX_RETRY_AFTER_MS = 30_000;
const EXCERPT_LENGTH = 500;

/** `cause` of every error that results from an HTTP status. */
export interface HttpRefusal {
  readonly status: number;
  /** `WWW-Authenticate`; null without one. */
  readonly challenge: string | null;
}

/** The HTTP status behind a transport error; null if the error has another cause. */
export function refusalOf(error: GatewayError): HttpRefusal | null {
  const cause = error.cause;
  return typeof cause === 'object' && cause !== null && 'status' in cause ? (cause as HttpRefusal) : null;
}

/** `WWW-Authenticate`; null without one. */
export function challengeIn(headers: ResponseHeaders): string | null {
  return headers.get('www-authenticate') ?? null;
}

/** Context of an error besides the response. */
interface ErrorContext {
  readonly server: string;
  /** Values to redact, longest first. */
  readonly secrets: readonly string[];
  readonly wallMs: number;
}

/**
 * The error for a request that got a status instead of a message. A 4xx means that the server did not execute it (NOT_SENT),
 * though repeating it unchanged would not help. A 5xx may occur before, during or after the execution: UNKNOWN.
 */
export function refusalError(
  context: ErrorContext,
  status: number,
  headers: ResponseHeaders,
  body: Buffer,
): GatewayError {
  const { server } = context;
  const cause: HttpRefusal = { status, challenge: challengeIn(headers) };
  const said = excerpt(body, context.secrets);
  const words = `${server}: mcp http status ${status}${said === '' ? '' : `: ${said}`}`;
  if (status === 401 || status === 403) {
    const what = status === 401 ? 'asks for credentials' : 'does not accept the credentials';
    // The body of a login page is for the operator; callers see only the status.
    const forCallers = `${server}: the server ${what} (mcp http status ${status})`;
    return new GatewayError('AUTH_REQUIRED', `${server}: the server ${what} (${words})`, { server, cause, forCallers });
  }
  const retryAfter = headers.get('retry-after');
  if (status === 429 || (status === 503 && retryAfter !== undefined)) {
    const delayMs = retryAfter === undefined ? null : parseRetryAfter(retryAfter, context.wallMs);
    if (delayMs === null) return new GatewayError('OVERLOADED', words, { server, cause });
    if (delayMs <= MAX_RETRY_AFTER_MS) {
      return new GatewayError('OVERLOADED', words, { server, cause, retryAfterMs: delayMs });
    }
    const late = `${words} (it asks to come back in ${Math.ceil(delayMs / 1000)} s, which is too long to wait)`;
    return new GatewayError('OVERLOADED', late, { server, cause, retryable: false });
  }
  if (status >= 500) return new GatewayError('UNKNOWN', words, { server, cause });
  if (status >= 300 && status < 400) {
    const to = redirectTarget(headers.get('location'));
    const advice = `${words}: redirects are not followed; put the final URL${to} into the definition`;
    const outcome = status === 303 ? 'UNKNOWN' : 'NOT_SENT';
    return new GatewayError('UPSTREAM_PROTOCOL', advice, { server, cause, outcome, retryable: false });
  }
  if (status >= 400) {
    return new GatewayError('NOT_SENT', words, { server, cause, retryable: false });
  }
  return new GatewayError('UPSTREAM_PROTOCOL', `${words}: neither an answer nor an error`, { server, cause });
}

/** The error for a request without a complete response. */
export function failureError(server: string, failure: HttpFailure, maxBytes: number): GatewayError {
  if (failure.kind === 'too_large' && failure.sent) {
    return tooLargeError(server, maxBytes, failure);
  }
  const words = `${server}: ${failure.message}`;
  if (failure.kind === 'head_too_large' && failure.sent) {
    return new GatewayError('TOO_LARGE', words, { server, cause: failure });
  }
  if (failure.kind === 'tls') return insecureError(server, failure);
  if (failure.kind === 'malformed') return new GatewayError('INVALID_REQUEST', words, { server, cause: failure });
  if (!failure.sent) return new GatewayError('NOT_SENT', words, { server, cause: failure });
  if (failure.kind === 'protocol') return new GatewayError('UPSTREAM_PROTOCOL', words, { server, cause: failure });
  return new GatewayError('UNKNOWN', `${words}; ${MAY_HAVE_RUN}`, { server, cause: failure });
}

/** A certificate error is for the operator; it would show callers the network behind the gateway. */
function insecureError(server: string, failure: HttpFailure): GatewayError {
  const after = failure.sent ? `; ${MAY_HAVE_RUN}` : '';
  return new GatewayError(failure.sent ? 'UNKNOWN' : 'NOT_SENT', `${server}: ${failure.message}${after}`, {
    server,
    cause: failure,
    forCallers: `${server}: there is no secure connection to the server; its status says why${after}`,
  });
}

export function tooLargeError(server: string, maxBytes: number, cause?: unknown): GatewayError {
  const words = `${server}: the answer is larger than the limit of ${maxBytes} bytes (limits.maxMessageBytes)`;
  return new GatewayError('TOO_LARGE', words, { server, cause });
}

/**
 * Whether the body of a refusal is the server's own JSON-RPC answer, to be forwarded unchanged: 2026-07-28 sends protocol
 * errors with 400 and 404. The id must be the request's own, or absent or null; for statuses that a proxy or a crash also
 * produces, the request's own. The Python SDK refuses a request before it reads it under the id "server-error".
 */
export function isServerAnswer(status: number, headers: ResponseHeaders, body: Buffer, request: number): boolean {
  if (status < 400 || status === 401 || status === 429 || status === 503) return false;
  if (headers.mediaType !== 'application/json' || !isAnswer(body)) return false;
  if (answeredRequest(body, body) === request) return true;
  const id = field(body, skipSpace(body, 0), body.length, 'id');
  return status !== 403 && status < 500 && (id === null || body.toString('latin1', id.start, id.end) === 'null');
}

/** The response body for one line of an error: bounded, without control characters, redacted. */
function excerpt(body: Buffer, secrets: readonly string[]): string {
  let text = body.toString('utf8', 0, EXCERPT_LENGTH * 4);
  for (const secret of secrets) text = text.replaceAll(secret, MASK);
  text = text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').trim();
  return text.length > EXCERPT_LENGTH ? `${text.slice(0, EXCERPT_LENGTH)}…` : text;
}

/** `Retry-After` in milliseconds from now (RFC 9110 §10.2.3: seconds or a date); null if it is neither. */
export function parseRetryAfter(value: string, wallMs: number): number | null {
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? null : Math.max(0, date - wallMs);
}

/** The redirect target without credentials and query; empty if it is not an absolute HTTP URL. */
function redirectTarget(location: string | undefined): string {
  if (location === undefined || !URL.canParse(location)) return '';
  const url = new URL(location);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return '';
  return ` (${url.origin}${url.pathname})`;
}
