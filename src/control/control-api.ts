import { createHash, timingSafeEqual } from 'node:crypto';
import type { Listener } from '../http/listener.ts';
import type { RequestContext } from '../http/request-context.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ControlPlane } from './control-plane.ts';
import type { Operation } from './operation.ts';
import { OPERATIONS } from './operations.ts';

const NO_BODY = Buffer.alloc(0);
/** Tool arguments are the largest thing anybody sends here. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;
/** Answers show the inside of the gateway: not for caches, not for pages of other origins. */
const HEADERS = [
  'Cache-Control',
  'no-store',
  'X-Content-Type-Options',
  'nosniff',
  'Content-Security-Policy',
  "default-src 'none'; frame-ancestors 'none'",
];

export interface ControlApiDeps {
  readonly plane: ControlPlane;
  readonly token: string;
  readonly logger: Logger;
}

/**
 * The control API on its listener. Everything needs the token, metrics included; only liveness does not. The token
 * travels in `Authorization` alone, so that no page of a browser can make use of a user's session (there is none).
 */
export class ControlApi {
  readonly #deps: ControlApiDeps;
  readonly #tokenDigest: Buffer;

  constructor(deps: ControlApiDeps) {
    this.#deps = deps;
    this.#tokenDigest = digest(deps.token);
  }

  register(listener: Listener): void {
    listener.answerHeaders = HEADERS;
    for (const operation of OPERATIONS) {
      const handler = (context: RequestContext) => this.#serve(context, operation);
      listener.routes.add(operation.path, { [operation.method]: handler }, { maxBodyBytes: MAX_BODY_BYTES });
    }
    listener.routes.add('/metrics', { GET: (context) => this.#metrics(context) });
    listener.routes.add('/livez', { GET: (context) => context.json(200, '{"status":"live"}') });
  }

  #metrics(context: RequestContext): void {
    if (!this.#authorized(context)) return;
    const text = Buffer.from(this.#deps.plane.metrics.exposition());
    context.answer(200, 'text/plain; version=0.0.4; charset=utf-8', text);
  }

  #serve(context: RequestContext, operation: Operation): void {
    if (!this.#authorized(context)) return;
    if (operation.takesBody === true) context.readJson((body) => void this.#run(context, operation, body));
    else if (operation.method !== 'GET' && sendsForm(context)) context.refuse(FORM);
    else void this.#run(context, operation, NO_BODY);
  }

  async #run(context: RequestContext, operation: Operation, body: Buffer): Promise<void> {
    const { plane, logger } = this.#deps;
    try {
      const request = { name: context.param, query: new URLSearchParams(context.query), body };
      const answer = await operation.run(request, plane);
      if (operation.method !== 'GET')
        logger.info('control', { operation: operation.id, name: context.param, status: answer.status });
      context.answer(
        answer.status,
        'application/json',
        Buffer.isBuffer(answer.body) ? answer.body : Buffer.from(answer.body),
      );
    } catch (error) {
      logger.error('control_failed', { operation: operation.id, error });
      context.refuse({ status: 500, code: 'internal', message: 'a defect of the gateway; its log has the details' });
    }
  }

  #authorized(context: RequestContext): boolean {
    const [, token = ''] = /^Bearer ([\x21-\x7e]+)$/i.exec(context.header('authorization') ?? '') ?? [];
    if (timingSafeEqual(digest(token), this.#tokenDigest)) return true;
    context.refuse({
      status: 401,
      code: 'token_required',
      message: 'send Authorization: Bearer with the token of the file control.token in the data folder',
      headers: ['WWW-Authenticate', 'Bearer realm="trunkline control"'],
    });
    return false;
  }
}

const FORM = { status: 415, code: 'unsupported_media_type', message: 'this takes no body but application/json' };

/** What a page can send without asking first (fetch §cors-safelisted request-header) never sets anything in motion. */
function sendsForm(context: RequestContext): boolean {
  const type = context.header('content-type');
  return type !== undefined && !/^application\/json[ \t]*(?:;|$)/i.test(type);
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
