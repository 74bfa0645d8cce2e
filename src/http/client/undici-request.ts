import type { Dispatcher } from 'undici';
import type { Clock } from '../../model/clock.ts';
import { ActiveRequest, type RequestChannel } from './active-request.ts';
import type { HttpRequest, ResponseHandler } from './client-port.ts';
import { encodeHeaders } from './header-block.ts';
import { HttpFailure, type HttpFailureKind } from './http-failure.ts';
import type { PhaseTimes } from './phase-times.ts';
import { ResponseHeaders } from './response-headers.ts';
import { MAX_HEAD_BYTES } from './response-parser.ts';
import { TurnSlice } from './turn-slice.ts';

export interface UndiciRequestOptions {
  readonly origin: string;
  readonly clock: Clock;
  readonly headTimeoutMs: number;
  readonly bodyPauseMs: number;
  readonly phases: PhaseTimes | null;
  /** The requests that have not ended. */
  readonly running: Set<UndiciRequest>;
}

/** One request through undici's dispatcher, adapted to the port. */
export class UndiciRequest implements RequestChannel, Dispatcher.DispatchHandler {
  readonly active: ActiveRequest;
  readonly #options: UndiciRequestOptions;
  #controller: Dispatcher.DispatchController | null = null;
  #sent = false;
  #pauseLimitMs = 0;
  #progressAt = 0;
  /** When the request was sent; 0 once its answer has begun, or if it is not measured. */
  #askedAt = 0;
  #stopDeadline: (() => void) | null = null;
  readonly #slice: TurnSlice;

  constructor(request: HttpRequest, handler: ResponseHandler, options: UndiciRequestOptions) {
    this.active = new ActiveRequest(request, handler, '', 0, new Set());
    this.active.connection = this;
    this.#options = options;
    options.running.add(this);
    this.#slice = new TurnSlice(
      () => options.clock.now(),
      () => this.#controller?.pause(),
      () => {
        if (this.#running && !this.active.paused) this.#controller?.resume();
      },
    );
  }

  /** Bytes of the request may have been sent. undici starts a request only on an open connection. */
  get sent(): boolean {
    return this.#sent;
  }

  get #running(): boolean {
    return this.#options.running.has(this);
  }

  dispatch(dispatcher: Dispatcher): void {
    if (!this.#running) return;
    const { request } = this.active;
    const { method, path, body } = request;
    const { origin } = this.#options;
    const bytes = body.length === 0 ? null : body.length === 1 ? body[0]! : Buffer.concat(body);
    try {
      const head = { origin, method, path, headers: headersOf(request), headersTimeout: 0, bodyTimeout: 0 };
      dispatcher.dispatch({ ...head, body: bytes }, this);
    } catch (error) {
      this.fail(new HttpFailure('malformed', this.#sent, (error as Error).message, error));
    }
  }

  abandon(): void {
    this.#finish();
    this.#controller?.abort(new Error('aborted'));
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#progressAt = this.#options.clock.now();
    if (!this.#slice.resting) this.#controller?.resume();
  }

  refuse(failure: HttpFailure): void {
    this.fail(failure);
  }

  fail(failure: HttpFailure): void {
    if (!this.#running) return;
    this.#finish();
    this.#controller?.abort(failure);
    this.active.onError(failure);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (!this.#running) {
      controller.abort(new Error('aborted'));
      return;
    }
    this.#sent = true;
    const { phases, clock } = this.#options;
    if (phases !== null && this.active.request.body.length > 0) this.#askedAt = clock.now();
    if (this.active.paused) controller.pause();
  }

  onResponseStarted(): void {
    if (!this.#running) return;
    if (this.#askedAt !== 0) this.#recordFirstByte();
    const { clock, headTimeoutMs } = this.#options;
    this.#stopDeadline ??= clock.after(headTimeoutMs, () =>
      this.fail(new HttpFailure('timeout', true, 'the head of the answer was begun and not finished')),
    );
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (!this.#running || status < 200) return;
    this.#stopDeadline?.();
    this.#stopDeadline = null;
    const headers = new ResponseHeaders(pairsOf(controller.rawHeaders));
    // The chunks belong to undici, so they are copied whether the length is known or not.
    this.active.onHead(status, headers, Number(headers.get('content-length') ?? -1), false);
    if (!this.#running) return;
    const standard = headers.mediaType === 'text/event-stream' ? 0 : this.#options.bodyPauseMs;
    this.#pauseLimitMs = this.active.request.bodyPauseMs ?? standard;
    this.#progressAt = this.#options.clock.now();
    if (this.#pauseLimitMs > 0) this.#watch(this.#pauseLimitMs);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#running) return;
    if (this.#pauseLimitMs > 0) this.#progressAt = this.#options.clock.now();
    this.#slice.beginPiece(chunk.length);
    this.active.onBody(chunk, 0, chunk.length);
    if (this.#running) this.#slice.end();
  }

  onResponseEnd(): void {
    if (!this.#running) return;
    this.#finish();
    this.active.onEnd();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#running) this.fail(undiciFailure(error, this.#sent));
  }

  /** Records the time to the first byte, or until the request was given up. */
  #recordFirstByte(givenUp = false): void {
    this.#options.phases?.add('firstByte', this.#options.clock.now() - this.#askedAt, givenUp);
    this.#askedAt = 0;
  }

  #finish(): void {
    this.#options.running.delete(this);
    if (this.#askedAt !== 0) this.#recordFirstByte(true);
    this.#stopDeadline?.();
    this.#stopDeadline = null;
  }

  #watch(delayMs: number): void {
    this.#stopDeadline = this.#options.clock.after(Math.max(1, delayMs), () => {
      const limit = this.#pauseLimitMs;
      const left = this.active.paused ? limit : this.#progressAt + limit - this.#options.clock.now();
      if (left > 0) this.#watch(left);
      else this.fail(new HttpFailure('timeout', true, `the body of the answer paused for ${limit} ms`));
    });
  }
}

/** As an object, which undici's proxy needs; validated like the headers of `HttpClient`. */
function headersOf(request: HttpRequest): Record<string, string> {
  const text = (request.block?.text ?? '') + encodeHeaders(request.headers);
  const headers: Record<string, string> = Object.create(null);
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(': ');
    if (colon > 0) headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 2);
  }
  return headers;
}

function pairsOf(raw: Dispatcher.DispatchController['rawHeaders']): string[] {
  if (!Array.isArray(raw)) return [];
  return raw.map((item, index) => {
    const text = typeof item === 'string' ? item : item.toString('latin1');
    return index % 2 === 0 ? text.toLowerCase() : text;
  });
}

const KINDS: Readonly<Record<string, HttpFailureKind>> = {
  UND_ERR_CONNECT_TIMEOUT: 'timeout',
  ETIMEDOUT: 'timeout',
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'refused',
  ENETUNREACH: 'refused',
  EADDRNOTAVAIL: 'refused',
  EMFILE: 'refused',
  UND_ERR_DESTROYED: 'closed',
  UND_ERR_CLOSED: 'closed',
  UND_ERR_INVALID_ARG: 'malformed',
  UND_ERR_PRX_CONN: 'proxy',
  UND_ERR_PRX_TLS: 'tls',
};

const TLS_CODE =
  /^(?:ERR_TLS_|ERR_SSL_|ERR_OSSL_|ERR_CRYPTO_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT|INVALID_CA|INVALID_PURPOSE|HOSTNAME_MISMATCH|PATH_LENGTH|ERROR_IN_CERT|EPROTO)/;
/** In TLS 1.3 the server judges the client's certificate after the client's first bytes; it has read none of them. */
const REFUSED_BY_ALERT = /^ERR_SSL_.*ALERT_.*(?:CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE|DECRYPT_ERROR)/;

/** Translates an error of undici or Node's TLS for the port. Codes decide, not texts, except for two without a code. */
export function undiciFailure(error: Error, sent: boolean): HttpFailure {
  const root = rootOf(error);
  const code = String((root as NodeJS.ErrnoException).code ?? '');
  const message = `${root.message}${code === '' || root.message.includes(code) ? '' : ` (${code})`}`;
  if (TLS_CODE.test(code)) return new HttpFailure('tls', sent && !REFUSED_BY_ALERT.test(code), message, error);
  if (root.name === 'HTTPParserError') return new HttpFailure('protocol', sent, message, error);
  if (!sent && /before secure TLS connection/.test(root.message)) return new HttpFailure('tls', false, message, error);
  if (!sent && /^Proxy /.test(root.message)) return new HttpFailure('proxy', false, message, error);
  if (code === 'UND_ERR_HEADERS_OVERFLOW') {
    const words = `the head of the answer is larger than the limit of ${MAX_HEAD_BYTES} bytes`;
    return new HttpFailure('head_too_large', sent, words, error);
  }
  const failure = new HttpFailure(KINDS[code] ?? (sent ? 'reset' : 'refused'), sent, message, error);
  failure.reusedConnection = (root as { readonly socket?: { readonly bytesRead: number } }).socket?.bytesRead !== 0;
  return failure;
}

function rootOf(error: Error): Error {
  let root = error;
  if (root instanceof AggregateError && root.errors[0] instanceof Error) root = root.errors[0];
  while (root.cause instanceof Error && (root.cause as NodeJS.ErrnoException).code !== undefined) root = root.cause;
  return root;
}
