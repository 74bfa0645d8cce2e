import type { CredentialLease } from '../../model/credentials.ts';
import type { BodyMode, ClientRequest, HttpClientPort, HttpRequest, ResponseHandler } from './client-port.ts';
import type { HttpFailure } from './http-failure.ts';
import type { ResponseHeaders } from './response-headers.ts';

/**
 * Adds a credential to requests, if there is one. A refused request is sent once more if the lease allows it; else the
 * handler gets the refusal. After the server has accepted a request without a credential, such requests pass unchanged.
 */
export class AuthorizedClient implements HttpClientPort {
  readonly lease: CredentialLease;
  readonly inner: HttpClientPort;
  readonly #origin: string;
  /** The server has accepted a request without a credential. */
  #open = false;

  constructor(inner: HttpClientPort, lease: CredentialLease, origin: string) {
    this.inner = inner;
    this.lease = lease;
    this.#origin = origin;
  }

  request(request: HttpRequest, handler: ResponseHandler): ClientRequest {
    const url = this.#origin + request.path;
    const headers = this.lease.headers(request.method, url);
    if (headers === null && this.#open) return this.inner.request(request, handler);
    return new AuthorizedRequest(this, url, request, handler, headers);
  }

  /** Notes the status of the answer to a request without a credential. */
  answered(status: number): void {
    if (status < 400) this.#open = true;
  }

  close(): void {
    this.inner.close();
  }
}

type Headers = readonly string[] | null;

class AuthorizedRequest implements ClientRequest, ResponseHandler {
  readonly #client: AuthorizedClient;
  readonly #url: string;
  readonly #request: HttpRequest;
  readonly #handler: ResponseHandler;
  #running: ClientRequest | null = null;
  #carried: Headers = null;
  #refusal: { readonly status: number; readonly headers: ResponseHeaders; body: Buffer | null } | null = null;
  #repeated = false;
  #paused = false;
  #aborted = false;

  constructor(
    client: AuthorizedClient,
    url: string,
    request: HttpRequest,
    handler: ResponseHandler,
    headers: Headers | Promise<Headers>,
  ) {
    this.#client = client;
    this.#url = url;
    this.#request = request;
    this.#handler = handler;
    this.#send(headers);
  }

  #send(headers: Headers | Promise<Headers>): void {
    if (headers instanceof Promise) void headers.then((got) => this.#sendWith(got));
    else this.#sendWith(headers);
  }

  #sendWith(carried: Headers): void {
    if (this.#aborted) return;
    this.#carried = carried;
    const request = this.#request;
    const whole = carried === null ? request : { ...request, headers: request.headers.concat(carried) };
    this.#running = this.#client.inner.request(whole, this);
    if (this.#paused) this.#running.pause();
  }

  head(status: number, headers: ResponseHeaders): BodyMode {
    if (this.#carried === null) this.#client.answered(status);
    else if (this.#carried.length === 4) {
      const nonce = headers.get('dpop-nonce');
      if (nonce !== undefined) this.#client.lease.nonce(nonce);
    }
    if (this.#repeated || (status !== 401 && !(status === 403 && isInsufficientScope(headers)))) {
      return this.#handler.head(status, headers);
    }
    this.#refusal = { status, headers, body: null };
    return 'whole';
  }

  data(chunk: Buffer): void {
    if (this.#refusal === null) this.#handler.data(chunk);
    else this.#refusal.body = chunk;
  }

  end(): void {
    if (this.#refusal === null) this.#handler.end();
    else void this.#refused();
  }

  error(failure: HttpFailure): void {
    if (this.#refusal !== null) this.#forwardRefusal();
    this.#handler.error(failure);
  }

  async #refused(): Promise<void> {
    const { status, headers } = this.#refusal!;
    const challenge = headers.get('www-authenticate') ?? null;
    const again = await this.#client.lease.refused({ status, challenge, headers: this.#carried });
    if (this.#aborted) return;
    if (again) {
      this.#refusal = null;
      this.#repeated = true;
      this.#send(this.#client.lease.headers(this.#request.method, this.#url));
      return;
    }
    this.#forwardRefusal();
    this.#handler.end();
  }

  #forwardRefusal(): void {
    const { status, headers, body } = this.#refusal!;
    this.#refusal = null;
    this.#handler.head(status, headers);
    if (body !== null) this.#handler.data(body);
  }

  abort(): void {
    this.#aborted = true;
    this.#running?.abort();
  }

  pause(): void {
    this.#paused = true;
    this.#running?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#running?.resume();
  }
}

function isInsufficientScope(headers: ResponseHeaders): boolean {
  return headers.get('www-authenticate')?.includes('insufficient_scope') === true;
}
