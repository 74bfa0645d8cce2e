import type { HeaderBlock } from './header-block.ts';
import type { HttpFailure } from './http-failure.ts';
import type { ResponseHeaders } from './response-headers.ts';

/**
 * Port: an HTTP/1.1 client of one origin, either `HttpClient` (plain HTTP, on `net`) or `UndiciClient` (TLS, proxies).
 * Never follows redirects.
 */
export interface HttpClientPort {
  /**
   * Sends one request. After this call has returned, the handler gets `head`, `data`…, `end`, or `error` once. The wait for
   * the head and silence on an event stream have no limit: the caller has a deadline and calls `abort`.
   */
  request(request: HttpRequest, handler: ResponseHandler): ClientRequest;
  /** Destroys every socket. Requests in flight get `error` (kind `closed`). Idempotent. */
  close(): void;
}

export interface HttpRequest {
  readonly method: string;
  /** Origin form: path and query. */
  readonly path: string;
  /** Headers that are the same for many requests, validated and encoded once. */
  readonly block?: HeaderBlock;
  /** Headers of this request only, name and value alternating. The client sets Host and Content-Length. */
  readonly headers: readonly string[];
  /** The buffers must not change until the answer has begun. */
  readonly body: readonly Buffer[];
  /** Longest body accepted in mode `whole`; a longer one fails the request with `too_large`. Default 16 MiB. */
  readonly maxBodyBytes?: number;
  /** Do not reuse a connection, if the client can choose: the last one was dead. */
  readonly fresh?: boolean;
  /** How long a body that has begun may pause; 0 for no limit. Default 30 s, without limit for `text/event-stream`. */
  readonly bodyPauseMs?: number;
}

/** `stream`: `data` for every piece as it arrives. `whole`: `data` once with the whole body, not at all if it is empty. */
export type BodyMode = 'stream' | 'whole';

/** No method may throw. The receiver owns every buffer. */
export interface ResponseHandler {
  /** Status line and headers of the final response; 1xx are skipped. */
  head(status: number, headers: ResponseHeaders): BodyMode;
  data(chunk: Buffer): void;
  end(): void;
  /** Ends the response instead of `end`. Nothing follows. */
  error(failure: HttpFailure): void;
}

/** All methods are no-ops once the request has ended. */
export interface ClientRequest {
  /** Reports nothing more to the handler and destroys the socket. */
  abort(): void;
  /** Stops reading, so that TCP slows the server down. What was read already is still delivered. */
  pause(): void;
  resume(): void;
}
