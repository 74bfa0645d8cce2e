import type { HeaderBlock } from './header-block.ts';
import type { HttpFailure } from './http-failure.ts';
import type { ResponseHeaders } from './response-headers.ts';

/**
 * Port: an HTTP/1.1 client of one origin: `HttpClient` (plain HTTP, on `net`) or `UndiciClient` (TLS, proxies).
 * Redirects are never followed.
 */
export interface HttpClientPort {
  /**
   * Sends one request. The handler gets, after this call has returned, `head`, `data`…, `end`, or `error` once. Nothing
   * limits the wait for the head, nor silence on an event stream: the caller has a deadline and calls `abort`.
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
  /** Headers of this request alone, name and value alternating. Host and Content-Length are the client's own. */
  readonly headers: readonly string[];
  /** The buffers must not change until the answer has begun. */
  readonly body: readonly Buffer[];
  /** Longest body taken in mode `whole`; above it the request fails with `too_large`. Default 16 MiB. */
  readonly maxBodyBytes?: number;
  /** Not on a kept connection, where that can be chosen: the last one was dead. */
  readonly fresh?: boolean;
  /** How long a body that has begun may pause; 0 for no limit. Default 30 s, without limit for `text/event-stream`. */
  readonly bodyPauseMs?: number;
}

/**
 * `stream`: `data` for every piece as it comes. `whole`: `data` once with the whole body, not at all when it is empty.
 */
export type BodyMode = 'stream' | 'whole';

/** No method may throw. Every buffer is the receiver's to keep. */
export interface ResponseHandler {
  /** Status line and headers of the final response; 1xx are skipped. */
  head(status: number, headers: ResponseHeaders): BodyMode;
  data(chunk: Buffer): void;
  end(): void;
  /** The one other way to end. Nothing follows. */
  error(failure: HttpFailure): void;
}

/** All methods are no-ops once the request has ended. */
export interface ClientRequest {
  /** Nothing more is reported to the handler; the socket is destroyed. */
  abort(): void;
  /** Stops reading: TCP holds the server back. What was read already is still delivered. */
  pause(): void;
  resume(): void;
}
