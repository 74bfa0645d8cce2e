import { timingSafeEqual } from 'node:crypto';
import type { Listener } from '../http/listener/listener.ts';
import type { RequestContext } from '../http/listener/request-context.ts';
import type { Handler } from '../http/listener/route-table.ts';
import type { Logger } from '../telemetry/logger.ts';
import { runAtNodes } from './at-nodes.ts';
import { digestOf, hasBearerToken } from './bearer.ts';
import type { ConsoleSession } from './console-logins.ts';
import type { ControlPlane, SendStep } from './control-plane.ts';
import { type ApiOperation, redactedBody, type StepsAnswer, type StreamAnswer } from './operation.ts';
import { OPERATIONS } from './operations.ts';

/** Header with the exec token. */
const EXEC_HEADER = 'trunkline-exec';
const CSRF_HEADER = 'trunkline-csrf';
const NO_BODY = Buffer.alloc(0);
const PROGRAM = { session: null };
/** Maximum number of concurrent streams without an end of their own. */
const MAX_STREAMS = 64;
/** Interval at which a stream checks that its console session is still open. */
const SESSION_LOOK_MS = 1_000;
/** Tool arguments are the largest bodies. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;
/** Answers describe the internals of the gateway: caches and pages of other origins must not use them. */
const HEADERS = ['Cache-Control', 'no-store', 'Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"];

export interface ControlApiDeps {
  readonly plane: ControlPlane;
  /** Proves the right `servers:exec`, in addition to the control token (decision 019). */
  readonly execToken: string;
  readonly logger: Logger;
}

/**
 * The control API on its listener. All operations but the login require a token, a client certificate or a console session.
 * Programs send the token in `Authorization`. The console sends a session cookie and, in a header that no other page can set,
 * a CSRF token that only its page knows.
 */
export class ControlApi {
  readonly #deps: ControlApiDeps;
  readonly #execDigest: Buffer;
  readonly #streams = new Set<{ close(): void }>();
  #refusedAt = Number.NEGATIVE_INFINITY;

  constructor(deps: ControlApiDeps) {
    this.#deps = deps;
    this.#execDigest = digestOf(deps.execToken);
  }

  /** `needsCertificate`: the listener accepts only clients with a certificate, which authenticates programs. */
  register(listener: Listener, needsCertificate: boolean): void {
    listener.answerHeaders = HEADERS;
    for (const path of new Set(OPERATIONS.map((operation) => operation.path))) {
      const handlers: Partial<Record<ApiOperation['method'], Handler>> = {};
      let maxBodyBytes = 0;
      for (const operation of OPERATIONS) {
        if (operation.path !== path) continue;
        handlers[operation.method] = (context) => this.#serve(context, operation, needsCertificate);
        if (operation.body !== undefined) maxBodyBytes = operation.maxBodyBytes ?? MAX_BODY_BYTES;
      }
      listener.routes.add(path, handlers, { maxBodyBytes: maxBodyBytes || MAX_BODY_BYTES });
    }
    this.#deps.plane.appFrames.register(listener.routes);
    listener.routes.add('/livez', { GET: (context) => context.json(200, '{"status":"live"}') });
  }

  /** Ends the streams without an end, so that a stop does not wait for them. Those of steps end with their calls. */
  close(): void {
    for (const stream of this.#streams) stream.close();
    this.#streams.clear();
  }

  #serve(context: RequestContext, operation: ApiOperation, hasCertificate: boolean): void {
    const proven = operation.unauthenticated === true || (hasCertificate && !isBrowser(context));
    const caller = proven ? PROGRAM : this.#caller(context);
    const exec = caller === null ? null : this.#exec(context);
    if (caller === null || exec === null) return;
    const run = (body: Buffer): void => void this.#run(context, operation, body, caller.session, exec);
    if (operation.body !== undefined) context.readJson(run);
    else if (operation.method !== 'GET' && sendsForm(context)) context.refuse(FORM);
    else run(NO_BODY);
  }

  async #run(
    context: RequestContext,
    operation: ApiOperation,
    body: Buffer,
    session: ConsoleSession | null,
    exec: boolean,
  ): Promise<void> {
    const { plane, logger } = this.#deps;
    try {
      const caller = { exec };
      const lastEventId = context.header('last-event-id') ?? null;
      const query = new URLSearchParams(context.query);
      const gone = new AbortController();
      context.onDisconnect(() => gone.abort());
      const { param: name } = context;
      const request = { name, query, body, caller, lastEventId, gone: gone.signal, session, secure: isSecure(context) };
      const answer = await runAtNodes(operation, request, plane);
      if ('stream' in answer) {
        this.#stream(context, answer, session);
        return;
      }
      if ('steps' in answer) {
        logger.info('control', { operation: operation.id, name: context.param, status: 200 });
        await this.#steps(context, answer, session, gone);
        return;
      }
      const status = answer.status === 200 ? (operation.status ?? 200) : answer.status;
      if (operation.method !== 'GET' && !(operation.unauthenticated === true && status >= 400 && this.#isLogged())) {
        logger.info('control', { operation: operation.id, name: context.param, status });
      }
      const text = redactedBody(operation, answer, logger);
      context.answer(status, 'application/json', Buffer.isBuffer(text) ? text : Buffer.from(text), answer.headers);
    } catch (error) {
      logger.error('control_failed', { operation: operation.id, error });
      context.refuse({ status: 500, code: 'internal', message: 'a defect of the gateway; its log has the details' });
    }
  }

  /** Limits refused logins to one log line per second; true if this second has one already. */
  #isLogged(): boolean {
    const now = this.#deps.plane.clock.wall();
    if (Math.abs(now - this.#refusedAt) < 1_000) return true;
    this.#refusedAt = now;
    return false;
  }

  async #steps(
    context: RequestContext,
    { steps }: StepsAnswer,
    session: ConsoleSession | null,
    gone: AbortController,
  ): Promise<void> {
    const writer = context.openSse();
    const release = this.#endWith(session, () => gone.abort());
    try {
      const sendStep: SendStep = (json, needed = false) => void writer.event(null, [Buffer.from(json)], !needed);
      writer.event(null, [await steps(sendStep)]);
    } catch (error) {
      this.#deps.logger.error('control_failed', { operation: context.path, error });
    } finally {
      release();
      writer.end();
    }
  }

  /** Calls `end` within a second of the end of the session; the returned function cancels that. Programs have no session. */
  #endWith(session: ConsoleSession | null, end: () => void): () => void {
    if (session === null) return () => {};
    const timer = setInterval(() => {
      if (this.#deps.plane.console.isOpen(session)) return;
      clearInterval(timer);
      end();
    }, SESSION_LOOK_MS);
    timer.unref();
    return () => clearInterval(timer);
  }

  #stream(context: RequestContext, { stream }: StreamAnswer, session: ConsoleSession | null): void {
    if (this.#streams.size >= MAX_STREAMS) {
      context.refuse({ status: 503, code: 'too_many_streams', message: `no more than ${MAX_STREAMS} streams at once` });
      return;
    }
    const release = this.#endWith(session, () => {
      this.#streams.delete(open);
      open.close();
    });
    const open = stream(context.openSse(), () => {
      release();
      this.#streams.delete(open);
    });
    this.#streams.add(open);
  }

  /** Whether the request has the exec token. Refuses a wrong token and returns null. */
  #exec(context: RequestContext): boolean | null {
    const token = context.header(EXEC_HEADER);
    if (token === undefined) return false;
    if (timingSafeEqual(digestOf(token), this.#execDigest)) return true;
    const message = `${EXEC_HEADER} is not the token of the file exec.token in the data folder`;
    context.refuse({ status: 401, code: 'exec_token_wrong', message });
    return null;
  }

  /** Authenticates the caller. Refuses an unknown caller and returns null. */
  #caller(context: RequestContext): { readonly session: ConsoleSession | null } | null {
    const { console } = this.#deps.plane;
    if (hasBearerToken(context, console.tokenDigests)) return PROGRAM;
    const session = context.header('authorization') === undefined ? console.find(context.header('cookie')) : null;
    if (session === null) context.refuse(UNKNOWN_CALLER);
    else if (!timingSafeEqual(digestOf(context.header(CSRF_HEADER) ?? ''), digestOf(session.csrf))) {
      context.refuse({ status: 403, code: 'csrf_token_wrong', message: `${CSRF_HEADER} is not that of this session` });
    } else if (context.method !== 'GET' && !isOwnPage(context)) {
      context.refuse({
        status: 403,
        code: 'foreign_page',
        message: 'the request does not come from a page of this console',
      });
    } else return { session };
    return null;
  }
}

/** Whether the browser says that the request comes from a page of this listener, or of a proxy in front of it. */
function isOwnPage(context: RequestContext): boolean {
  const site = context.header('sec-fetch-site');
  const origin = context.header('origin');
  if (site !== undefined) return site === 'same-origin';
  return origin !== undefined && origin.replace(/^https?:\/\//, '') === context.header('host');
}

/** A page of any origin could use a browser's certificate, so browsers need a session as well. */
function isBrowser(context: RequestContext): boolean {
  return ['origin', 'sec-fetch-site', 'cookie'].some((name) => context.header(name) !== undefined);
}

/** A forged X-Forwarded-Proto only yields a cookie that plain HTTP does not send. */
function isSecure(context: RequestContext): boolean {
  const proxied = context.header('x-forwarded-proto') ?? '';
  return /^\s*https\s*(?:,|$)/i.test(proxied) || context.header('origin')?.startsWith('https:') === true;
}

const UNKNOWN_CALLER = {
  status: 401,
  code: 'token_required',
  message: 'send Authorization: Bearer with the token of the file control.token in the data folder',
  headers: ['WWW-Authenticate', 'Bearer realm="trunkline control"'],
};
const FORM = { status: 415, code: 'unsupported_media_type', message: 'this takes no body but application/json' };

/** A page can send other types without a CORS preflight (fetch §cors-safelisted request-header); they must have no effect. */
function sendsForm(context: RequestContext): boolean {
  const type = context.header('content-type');
  return type !== undefined && !/^application\/json[ \t]*(?:;|$)/i.test(type);
}
