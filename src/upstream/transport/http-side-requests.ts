import type { BodyMode, ClientRequest, HttpRequest, ResponseHandler } from '../../http/client/client-port.ts';
import type { HeaderBlock } from '../../http/client/header-block.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import type { Clock } from '../../model/clock.ts';
import { challengeIn } from './http-refusal.ts';
import type { UrlTransport } from './http-wire.ts';

/** Longer bodies cost more than the connection that reading them would keep. */
const MAX_BODY_BYTES = 64 * 1024;

/** Timeout for the response to a side request. */
const VERDICT_MS = 30_000;

type Done = (status: number, challenge: string | null) => void;

/**
 * A request of which only the status counts: `done` is called once, after the head, or with status 0 on failure or timeout. The
 * body is read and discarded so that the connection can be reused, unless the server opens an event stream, which is aborted.
 */
class HttpStatusOnly implements ResponseHandler {
  running: ClientRequest | null = null;
  #done: Done | null;
  #status = 0;
  #challenge: string | null = null;
  #bytes = 0;
  readonly #disarm: () => void;

  constructor(clock: Clock, done: Done) {
    this.#done = done;
    this.#disarm = clock.after(VERDICT_MS, () => {
      this.#settle();
      this.abort();
    });
  }

  head(status: number, headers: ResponseHeaders): BodyMode {
    this.#status = status;
    this.#challenge = challengeIn(headers);
    // Runs after everything that was read with the head: most responses are complete then, and `done` finds the connection
    // free.
    queueMicrotask(() => this.#settle());
    if (headers.mediaType === 'text/event-stream') this.#stop();
    return 'stream';
  }

  data(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > MAX_BODY_BYTES) this.#stop();
  }

  end(): void {
    this.#disarm();
  }

  error(): void {
    this.#disarm();
    this.#settle();
  }

  #settle(): void {
    const done = this.#done;
    this.#done = null;
    done?.(this.#status, this.#challenge);
  }

  #stop(): void {
    this.#disarm();
    this.running?.abort();
  }

  /** Aborts without calling `done`. */
  abort(): void {
    this.#done = null;
    this.#stop();
  }
}

const PING = Buffer.from('{"jsonrpc":"2.0","id":"trunkline-session-check","method":"ping"}');

/** Maximum of concurrent requests; further ones wait. */
const MAX_RUNNING = 256;
/** Maximum of waiting requests: hundreds of calls may be cancelled, or their requests answered, at once. */
const MAX_WAITING = 4_096;
const MAX_WAITING_BYTES = 16 * 1024 * 1024;

type SideTransport = Pick<UrlTransport, 'client' | 'path' | 'heads'> & { readonly options: { readonly clock: Clock } };

/**
 * What a transport sends besides requests: notifications, answers, the session check and the session's end. No call's deadline
 * covers these, so they have a timeout here.
 */
export class HttpSideRequests {
  readonly #transport: SideTransport;
  readonly #running = new Set<HttpStatusOnly>();
  #waiting: { readonly request: HttpRequest; readonly done: Done }[] = [];
  #waitingBytes = 0;
  #serving = false;
  #whenIdle: (() => void) | null = null;
  #checks: ((alive: boolean) => void)[] | null = null;

  constructor(transport: SideTransport) {
    this.#transport = transport;
  }

  /** `done`: gets the status, 0 if there is none. */
  post(body: readonly Buffer[], block: HeaderBlock, headers: readonly string[], done: Done): void {
    const request: HttpRequest = { method: 'POST', path: this.#transport.path, block, headers, body };
    if (this.#running.size < MAX_RUNNING) {
      this.#run(request, done);
      return;
    }
    const bytes = this.#waitingBytes + lengthOf(body);
    if (this.#waiting.length >= MAX_WAITING || bytes > MAX_WAITING_BYTES) {
      done(0, null);
      return;
    }
    this.#waitingBytes = bytes;
    this.#waiting.push({ request, done });
  }

  /**
   * Pings the server to check whether it still knows the session. Only 400 and 404 count as no. Concurrent checks share one
   * answer.
   */
  checkSession(done: (alive: boolean) => void): void {
    if (this.#checks !== null) {
      this.#checks.push(done);
      return;
    }
    this.#checks = [done];
    this.post([PING], this.#transport.heads.post(null), [], (status) => {
      const checks = this.#checks ?? [];
      this.#checks = null;
      for (const check of checks) check(status !== 400 && status !== 404);
    });
  }

  /** Waits for requests in progress and ends the session if asked to, within `limitMs`. */
  async finish(endSession: boolean, limitMs: number): Promise<void> {
    if (!endSession && this.#running.size === 0) return;
    const { options, path, heads } = this.#transport;
    await new Promise<void>((resolve) => {
      const stop = options.clock.after(limitMs, resolve);
      this.#whenIdle = () => {
        stop();
        resolve();
      };
      if (endSession) this.#run({ method: 'DELETE', path, block: heads.stream, headers: [], body: [] }, () => {});
    });
    this.stop();
  }

  /** Aborts all requests; no `done` is called. */
  stop(): void {
    this.#checks = null;
    this.#waiting = [];
    this.#waitingBytes = 0;
    for (const side of this.#running) side.abort();
    this.#running.clear();
  }

  #run(request: HttpRequest, done: Done): void {
    const side = new HttpStatusOnly(this.#transport.options.clock, (status, challenge) => {
      this.#running.delete(side);
      done(status, challenge);
      this.#next();
      if (this.#running.size === 0) this.#whenIdle?.();
    });
    this.#running.add(side);
    side.running = this.#transport.client.request(request, side);
  }

  /** A loop instead of recursion: without a connection each of thousands of requests fails at once. */
  #next(): void {
    if (this.#serving) return;
    this.#serving = true;
    while (this.#waiting.length > 0 && this.#running.size < MAX_RUNNING) {
      const { request, done } = this.#waiting.shift()!;
      this.#waitingBytes -= lengthOf(request.body);
      this.#run(request, done);
    }
    this.#serving = false;
  }
}

function lengthOf(body: readonly Buffer[]): number {
  return body.reduce((bytes, part) => bytes + part.length, 0);
}
