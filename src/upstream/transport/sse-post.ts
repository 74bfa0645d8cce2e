import type { BodyMode, ClientRequest, ResponseHandler } from '../../http/client/client-port.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';

export interface SsePostOwner {
  /** The POST is over; comes before anything else is told of it. */
  postEnded(post: SsePost): void;
  /** Any status but a success. */
  postRefused(request: number, status: number, headers: ResponseHeaders, body: Buffer): void;
  postFailed(request: number, failure: HttpFailure): void;
}

const EMPTY = Buffer.alloc(0);

/** A message on its way to a 2024-11-05 server. The answer comes on the event stream; here only a refusal counts. */
export class SsePost implements ResponseHandler {
  /** 0 for what gets no answer. */
  readonly request: number;
  readonly #owner: SsePostOwner;
  #running: ClientRequest | null = null;
  #status = 0;
  #headers: ResponseHeaders | null = null;
  #body: Buffer = EMPTY;

  constructor(owner: SsePostOwner, request: number) {
    this.#owner = owner;
    this.request = request;
  }

  head(status: number, headers: ResponseHeaders): BodyMode {
    this.#status = status;
    this.#headers = headers;
    return this.#refused ? 'whole' : 'stream';
  }

  data(chunk: Buffer): void {
    if (this.#refused) this.#body = chunk;
  }

  run(running: ClientRequest): void {
    this.#running = running;
  }

  /** Nothing is told. */
  abort(): void {
    this.#running?.abort();
  }

  end(): void {
    this.#owner.postEnded(this);
    if (this.#refused) this.#owner.postRefused(this.request, this.#status, this.#headers!, this.#body);
  }

  error(failure: HttpFailure): void {
    if (this.#headers !== null) {
      this.end();
      return;
    }
    this.#owner.postEnded(this);
    this.#owner.postFailed(this.request, failure);
  }

  get #refused(): boolean {
    return this.#status < 200 || this.#status > 299;
  }
}
