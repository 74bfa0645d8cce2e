import type { Dispatcher } from 'undici';
import type { Clock } from '../../model/clock.ts';
import { BodyCollector } from './body-collector.ts';
import type { ClientRequest, HttpRequest, ResponseHandler } from './client-port.ts';
import { GIVEN_UP_MS } from './connect-phases.ts';
import { encodeHeaders } from './header-block.ts';
import { HttpFailure } from './http-failure.ts';
import type { PhaseTimes } from './phase-times.ts';
import { ResponseHeaders } from './response-headers.ts';
import { TurnSlice } from './turn-slice.ts';
import { undiciFailure } from './undici-failure.ts';

const DEFAULT_MAX_BODY = 16 * 1024 * 1024;

export interface UndiciRequestOptions {
  readonly origin: string;
  readonly clock: Clock;
  readonly headTimeoutMs: number;
  readonly bodyPauseMs: number;
  readonly phases: PhaseTimes | null;
  ended(request: UndiciRequest): void;
}

/** One request through undici's dispatcher, in the terms of the port. */
export class UndiciRequest implements ClientRequest, Dispatcher.DispatchHandler {
  readonly #request: HttpRequest;
  readonly #handler: ResponseHandler;
  readonly #options: UndiciRequestOptions;
  #controller: Dispatcher.DispatchController | null = null;
  #collector: BodyCollector | null = null;
  #sent = false;
  #paused = false;
  #done = false;
  #pauseLimitMs = 0;
  #progressAt = 0;
  /** When it was sent whose answer has not begun; 0 where it is not measured. */
  #askedAt = 0;
  #stopDeadline: (() => void) | null = null;
  readonly #slice: TurnSlice;

  constructor(request: HttpRequest, handler: ResponseHandler, options: UndiciRequestOptions) {
    this.#request = request;
    this.#handler = handler;
    this.#options = options;
    this.#slice = new TurnSlice(
      () => options.clock.now(),
      () => this.#controller?.pause(),
      () => {
        if (!this.#done && !this.#paused) this.#controller?.resume();
      },
    );
  }

  /** Bytes of the request may have gone out. undici starts a request only on an open connection. */
  get sent(): boolean {
    return this.#sent;
  }

  dispatch(dispatcher: Dispatcher): void {
    if (this.#done) return;
    const { method, path, body } = this.#request;
    try {
      dispatcher.dispatch(
        {
          origin: this.#options.origin,
          method,
          path,
          headers: headersOf(this.#request),
          body: body.length === 0 ? null : body.length === 1 ? body[0]! : Buffer.concat(body),
          headersTimeout: 0,
          bodyTimeout: 0,
        },
        this,
      );
    } catch (error) {
      this.fail(new HttpFailure('protocol', this.#sent, (error as Error).message, error));
    }
  }

  abort(): void {
    if (this.#done) return;
    this.#finish();
    this.#controller?.abort(new Error('aborted'));
  }

  pause(): void {
    if (this.#done || this.#paused) return;
    this.#paused = true;
    this.#controller?.pause();
  }

  resume(): void {
    if (this.#done || !this.#paused) return;
    this.#paused = false;
    this.#progressAt = this.#options.clock.now();
    if (!this.#slice.resting) this.#controller?.resume();
  }

  fail(failure: HttpFailure): void {
    if (this.#done) return;
    this.#finish();
    this.#controller?.abort(failure);
    this.#handler.error(failure);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#done) {
      controller.abort(new Error('aborted'));
      return;
    }
    this.#sent = true;
    if (this.#options.phases !== null && this.#request.body.length > 0) this.#askedAt = this.#options.clock.now();
    if (this.#paused) controller.pause();
  }

  onResponseStarted(): void {
    if (this.#done) return;
    if (this.#askedAt !== 0) this.#begun(0);
    const limit = this.#options.headTimeoutMs;
    this.#stopDeadline ??= this.#options.clock.after(limit, () =>
      this.fail(new HttpFailure('timeout', true, 'the head of the answer was begun and not finished')),
    );
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (this.#done || status < 200) return;
    this.#stopDeadline?.();
    this.#stopDeadline = null;
    const headers = new ResponseHeaders(pairsOf(controller.rawHeaders));
    if (this.#handler.head(status, headers) === 'whole' && !this.#done) {
      const length = Number(headers.get('content-length') ?? -1);
      const limit = this.#request.maxBodyBytes ?? DEFAULT_MAX_BODY;
      if (length > limit) {
        this.#tooLarge(limit);
        return;
      }
      this.#collector = new BodyCollector(-1, limit);
    }
    if (this.#isDone()) return;
    const standard = headers.mediaType === 'text/event-stream' ? 0 : this.#options.bodyPauseMs;
    this.#pauseLimitMs = this.#request.bodyPauseMs ?? standard;
    this.#progressAt = this.#options.clock.now();
    if (this.#pauseLimitMs > 0) this.#watch(this.#pauseLimitMs);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#done) return;
    if (this.#pauseLimitMs > 0) this.#progressAt = this.#options.clock.now();
    this.#slice.beginPiece(chunk.length);
    const collector = this.#collector;
    if (collector === null) this.#handler.data(Buffer.from(chunk));
    else if (!collector.add(chunk, 0, chunk.length)) this.#tooLarge(collector.limit);
    if (!this.#done) this.#slice.end();
  }

  onResponseEnd(): void {
    if (this.#done) return;
    const body = this.#collector?.take() ?? null;
    if (body !== null) this.#handler.data(body);
    if (this.#isDone()) return;
    this.#finish();
    this.#handler.end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#done) return;
    this.fail(undiciFailure(error, this.#sent));
  }

  #isDone(): boolean {
    return this.#done;
  }

  /** The first byte of the answer is here; or no caller waits for it any longer, and it took this time at least. */
  #begun(leastMs: number): void {
    const tookMs = this.#options.clock.now() - this.#askedAt;
    this.#askedAt = 0;
    if (tookMs >= leastMs) this.#options.phases?.add('firstByte', tookMs);
  }

  #finish(): void {
    this.#done = true;
    if (this.#askedAt !== 0) this.#begun(GIVEN_UP_MS);
    this.#stopDeadline?.();
    this.#stopDeadline = null;
    this.#options.ended(this);
  }

  #watch(delayMs: number): void {
    this.#stopDeadline = this.#options.clock.after(Math.max(1, delayMs), () => {
      const limit = this.#pauseLimitMs;
      const left = this.#paused ? limit : this.#progressAt + limit - this.#options.clock.now();
      if (left > 0) this.#watch(left);
      else this.fail(new HttpFailure('timeout', true, `the body of the answer paused for ${limit} ms`));
    });
  }

  #tooLarge(limit: number): void {
    this.fail(new HttpFailure('too_large', true, `the answer is larger than ${limit} bytes`));
  }
}

/** As an object, which undici's proxy needs; checked like those of the lean client. */
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
