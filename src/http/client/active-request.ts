import { ByteGatherer } from '../../model/byte-gatherer.ts';
import { takeBuffer } from '../../model/pooled-buffers.ts';
import type { ClientRequest, HttpRequest, ResponseHandler } from './client-port.ts';
import { HttpFailure } from './http-failure.ts';
import type { ResponseHeaders } from './response-headers.ts';

const DEFAULT_MAX_BODY = 16 * 1024 * 1024;

/** The connection of a request, as the request sees it. */
export interface RequestChannel {
  /** Gives up the request, whose caller has aborted it. */
  abandon(): void;
  pause(): void;
  resume(): void;
  /** Fails the request because of its response. */
  refuse(failure: HttpFailure): void;
}

/** A request in progress: waiting for a connection, then on one, then done. */
export class ActiveRequest implements ClientRequest {
  readonly request: HttpRequest;
  readonly #handler: ResponseHandler;
  readonly #waiting: Set<ActiveRequest>;
  /** Request line and headers, encoded, with the empty line. */
  readonly headText: string;
  readonly bodyBytes: number;
  /** Null while waiting. */
  connection: RequestChannel | null = null;
  paused = false;
  /** How often a connection turned out dead before it took a byte of the request. */
  unsent = 0;
  #collector: BodyCollector | null = null;
  #done = false;

  /** `waiting`: the requests without a connection; an aborted one leaves them. */
  constructor(
    request: HttpRequest,
    handler: ResponseHandler,
    headText: string,
    bodyBytes: number,
    waiting: Set<ActiveRequest>,
  ) {
    this.request = request;
    this.#handler = handler;
    this.headText = headText;
    this.bodyBytes = bodyBytes;
    this.#waiting = waiting;
  }

  get isHeadRequest(): boolean {
    return this.request.method === 'HEAD';
  }

  abort(): void {
    if (this.#done) return;
    this.#done = true;
    if (this.connection === null) this.#waiting.delete(this);
    else this.connection.abandon();
  }

  pause(): void {
    if (this.#done || this.paused) return;
    this.paused = true;
    this.connection?.pause();
  }

  resume(): void {
    if (this.#done || !this.paused) return;
    this.paused = false;
    this.connection?.resume();
  }

  /** `length` of the body, -1 if it is not announced; `inPlace`: the socket can read the body into its final buffer. */
  onHead(status: number, headers: ResponseHeaders, length: number, inPlace: boolean): void {
    if (this.#done) return;
    if (this.#handler.head(status, headers) !== 'whole' || this.#isDone()) return;
    const limit = this.request.maxBodyBytes ?? DEFAULT_MAX_BODY;
    if (length > limit) this.#tooLarge(limit);
    else this.#collector = new BodyCollector(inPlace ? length : -1, limit);
  }

  onBody(bytes: Buffer, from: number, to: number): void {
    if (this.#done) return;
    const collector = this.#collector;
    if (collector === null) this.#handler.data(Buffer.from(bytes.subarray(from, to)));
    else if (!collector.add(bytes, from, to)) this.#tooLarge(collector.limit);
  }

  /** Where the next bytes of the body should be read to; null for any buffer. */
  get readBuffer(): Buffer | null {
    return this.#done ? null : (this.#collector?.rest ?? null);
  }

  onEnd(): void {
    if (this.#done) return;
    const body = this.#collector?.take() ?? null;
    if (body !== null) this.#handler.data(body);
    // `data` may have aborted the request.
    if (this.#isDone()) return;
    this.#done = true;
    this.#handler.end();
  }

  onError(failure: HttpFailure): void {
    if (this.#done) return;
    this.#done = true;
    this.#handler.error(failure);
  }

  #isDone(): boolean {
    return this.#done;
  }

  #tooLarge(limit: number): void {
    this.connection?.refuse(new HttpFailure('too_large', true, `the answer is larger than ${limit} bytes`));
  }
}

/** Gathers a body in one buffer, with one copy if its length is known, two otherwise. */
export class BodyCollector {
  readonly limit: number;
  readonly #parts = new ByteGatherer();
  readonly #whole: Buffer | null;
  #length = 0;

  /** `known` is the announced length, at most `limit`; -1 without one. */
  constructor(known: number, limit: number) {
    this.limit = limit;
    this.#whole = known < 0 ? null : takeBuffer(known);
  }

  /** Where the next bytes belong: a read can put them there itself, and `add` then does not copy them. */
  get rest(): Buffer | null {
    return this.#whole === null ? null : this.#whole.subarray(this.#length);
  }

  /** Copies a range out of `bytes`. False if that exceeds the limit. */
  add(bytes: Buffer, from: number, to: number): boolean {
    const whole = this.#whole;
    if (whole !== null) {
      const inPlace = bytes.buffer === whole.buffer && bytes.byteOffset + from === whole.byteOffset + this.#length;
      if (!inPlace) bytes.copy(whole, this.#length, from, to);
    } else {
      if (this.#length + to - from > this.limit) return false;
      this.#parts.addCopy(bytes.subarray(from, to));
    }
    this.#length += to - from;
    return true;
  }

  /** The body; null when it is empty. */
  take(): Buffer | null {
    return this.#length === 0 ? null : (this.#whole ?? this.#parts.take());
  }
}
