import type { HeaderBlock } from './header-block.ts';
import type { HttpFailure } from './http-failure.ts';
import type { ResponseHeaders } from './response-headers.ts';

/**
 * Port: an HTTP/1.1 client of one origin. Two implementations: `HttpClient` (plain HTTP, on `net`) and
 * `UndiciClient` (TLS, proxies); `openHttpClient` chooses. Redirects are answers like any other and never followed.
 */
export interface HttpClientPort {
  /**
   * Sends one request. The fate of it is told to the handler, always after this call has returned: `error` once, or
   * `head`, `data`…, `end`. Nothing bounds the wait for the head, nor silence on an event stream: that is the caller's
   * deadline, who calls `abort`.
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
  /** Sent as it is, with Content-Length. The buffers must not change until the answer has begun. */
  readonly body: readonly Buffer[];
  /** Longest body taken in mode `whole`; above it the request fails with `too_large`. Default 16 MiB. */
  readonly maxBodyBytes?: number;
  /**
   * How long a body once begun may pause; 0 for no limit. Default 30 s, except for `text/event-stream`, where silence
   * is normal and nothing limits it.
   */
  readonly bodyPauseMs?: number;
}

/**
 * What `head` may choose. `stream`: `data` is called for every piece as it comes. `whole`: `data` is
 * called once with the whole body in one buffer (not at all when it is empty), copied once.
 */
export type BodyMode = 'stream' | 'whole';

/** Receives one response. No method may throw. Every buffer handed out is the receiver's to keep. */
export interface ResponseHandler {
  /** Status line and headers of the final response; 1xx are skipped. */
  head(status: number, headers: ResponseHeaders): BodyMode;
  data(chunk: Buffer): void;
  end(): void;
  /** The one other way to end. Nothing follows. */
  error(failure: HttpFailure): void;
}

/** The running request, in the caller's hand. All methods are no-ops once it has ended. */
export interface ClientRequest {
  /** Ends the request without another word to the handler; its socket, if it has one, is destroyed. */
  abort(): void;
  /** Stops reading from the socket: the server is pushed back by TCP. What was read already is still delivered. */
  pause(): void;
  resume(): void;
}
