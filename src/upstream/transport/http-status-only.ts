import type { BodyMode, ClientRequest, ResponseHandler } from '../../http/client/client-port.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';

/** A longer body is not worth the socket that it would save. */
const MAX_BODY_BYTES = 64 * 1024;

/**
 * A request of which only the verdict counts: notifications, answers, DELETE, the session check. `done` is called
 * once, at the head or at the failure (status 0); the body is read off and dropped so that the socket can be used
 * again, unless the server opens an event stream, which nobody would listen to.
 */
export class HttpStatusOnly implements ResponseHandler {
  readonly #done: (status: number, challenge: string | null) => void;
  #running: ClientRequest | null = null;
  #told = false;
  #cut = false;
  #bytes = 0;

  constructor(done: (status: number, challenge: string | null) => void) {
    this.#done = done;
  }

  run(running: ClientRequest): void {
    this.#running = running;
  }

  head(status: number, headers: ResponseHeaders): BodyMode {
    this.#cut = headers.mediaType === 'text/event-stream';
    this.#tell(status, headers.get('www-authenticate') ?? null);
    if (this.#cut) this.#running?.abort();
    return 'stream';
  }

  data(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > MAX_BODY_BYTES) this.#running?.abort();
  }

  end(): void {}

  error(): void {
    this.#tell(0, null);
  }

  /** As if it had failed. */
  giveUp(): void {
    this.#tell(0, null);
    this.#running?.abort();
  }

  /** Nothing is told. */
  abort(): void {
    this.#told = true;
    this.#running?.abort();
  }

  #tell(status: number, challenge: string | null): void {
    if (this.#told) return;
    this.#told = true;
    this.#done(status, challenge);
  }
}
