import { BodyCollector } from './body-collector.ts';
import type { ClientRequest, HttpRequest, ResponseHandler } from './client-port.ts';
import { HttpFailure } from './http-failure.ts';
import type { ResponseHead } from './response-head.ts';

const DEFAULT_MAX_BODY = 16 * 1024 * 1024;

/** The connection a request is on, as the request sees it. */
export interface RequestChannel {
  /** No caller waits for the answer any more. */
  abandon(): void;
  pause(): void;
  resume(): void;
  /** The answer is not to be taken. */
  refuse(failure: HttpFailure): void;
}

/** A request on its way: waiting for a connection, then on one, then done. */
export class ActiveRequest implements ClientRequest {
  readonly request: HttpRequest;
  readonly #handler: ResponseHandler;
  readonly #forget: (request: ActiveRequest) => void;
  /** Request line and headers, encoded, with the empty line. */
  readonly headText: string;
  readonly bodyBytes: number;
  /** Null while waiting. */
  connection: RequestChannel | null = null;
  paused = false;
  /** How often a connection turned out dead before it took a byte. */
  unsent = 0;
  #collector: BodyCollector | null = null;
  #done = false;

  constructor(
    request: HttpRequest,
    handler: ResponseHandler,
    headText: string,
    bodyBytes: number,
    forget: (request: ActiveRequest) => void,
  ) {
    this.request = request;
    this.#handler = handler;
    this.headText = headText;
    this.bodyBytes = bodyBytes;
    this.#forget = forget;
  }

  get head(): boolean {
    return this.request.method === 'HEAD';
  }

  abort(): void {
    if (this.#done) return;
    this.#done = true;
    if (this.connection === null) this.#forget(this);
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

  onHead(head: ResponseHead): void {
    if (this.#done) return;
    if (this.#handler.head(head.status, head.headers) !== 'whole' || this.#done) return;
    const known = head.framing.kind === 'length' ? head.framing.length : -1;
    const limit = this.request.maxBodyBytes ?? DEFAULT_MAX_BODY;
    if (known > limit) this.#tooLarge(limit);
    else this.#collector = new BodyCollector(known, limit);
  }

  onBody(bytes: Buffer, from: number, to: number): void {
    if (this.#done) return;
    const collector = this.#collector;
    if (collector === null) this.#handler.data(copyOf(bytes, from, to));
    else if (!collector.add(bytes, from, to)) this.#tooLarge(collector.limit);
  }

  /** Where the next bytes of the body should be read to; null for anywhere. */
  get readBuffer(): Buffer | null {
    return this.#done ? null : (this.#collector?.rest ?? null);
  }

  onEnd(): void {
    if (this.#done) return;
    const body = this.#collector?.take() ?? null;
    if (body !== null) this.#handler.data(body);
    // `data` may have aborted.
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

function copyOf(bytes: Buffer, from: number, to: number): Buffer {
  const copy = Buffer.allocUnsafe(to - from);
  bytes.copy(copy, 0, from, to);
  return copy;
}
