import type { BodyMode, ResponseHandler } from '../../http/client-port.ts';
import type { HttpFailure } from '../../http/http-failure.ts';
import type { ResponseHeaders } from '../../http/response-headers.ts';

export interface SsePostOwner {
  /** Any status but a success. */
  postRefused(request: number, status: number, headers: ResponseHeaders, body: Buffer): void;
  postFailed(request: number, failure: HttpFailure): void;
}

const EMPTY = Buffer.alloc(0);

/** A message on its way to a 2024-11-05 server. The answer comes on the event stream; here only a refusal counts. */
export class SsePost implements ResponseHandler {
  readonly #owner: SsePostOwner;
  readonly #request: number;
  #status = 0;
  #headers: ResponseHeaders | null = null;
  #body: Buffer = EMPTY;

  /** `request` is 0 for what gets no answer. */
  constructor(owner: SsePostOwner, request: number) {
    this.#owner = owner;
    this.#request = request;
  }

  head(status: number, headers: ResponseHeaders): BodyMode {
    this.#status = status;
    this.#headers = headers;
    return this.#refused ? 'whole' : 'stream';
  }

  data(chunk: Buffer): void {
    if (this.#refused) this.#body = chunk;
  }

  end(): void {
    if (this.#refused) this.#owner.postRefused(this.#request, this.#status, this.#headers!, this.#body);
  }

  error(failure: HttpFailure): void {
    if (this.#headers === null) this.#owner.postFailed(this.#request, failure);
    else this.end();
  }

  get #refused(): boolean {
    return this.#status < 200 || this.#status > 299;
  }
}
