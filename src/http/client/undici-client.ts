import type { LookupFunction, Socket } from 'node:net';
import type { Dispatcher } from 'undici';
import { type Clock, systemClock } from '../../model/clock.ts';
import type { TlsSpec } from '../../model/server.ts';
import type { CommonOptions } from './client.ts';
import type { ClientRequest, HttpClientPort, HttpRequest, ResponseHandler } from './client-port.ts';
import { HttpFailure } from './http-failure.ts';
import { timeConnect } from './phase-times.ts';
import { MAX_HEAD_BYTES } from './response-parser.ts';
import { UndiciRequest } from './undici-request.ts';

/** Through a proxy `phases` get only the first byte. */
export interface UndiciClientOptions extends CommonOptions {
  readonly tls: TlsSpec;
  readonly proxy: URL | null;
  readonly lookup: LookupFunction;
}

/**
 * The client for TLS and proxies, on undici: HTTP/1.1, no pipelining, the time limits of the port. Loads undici with the
 * first request. Always verifies the certificate.
 */
export class UndiciClient implements HttpClientPort {
  readonly #origin: string;
  readonly #options: UndiciClientOptions;
  readonly #clock: Clock;
  readonly #running = new Set<UndiciRequest>();
  #dispatcher: Promise<Dispatcher> | null = null;
  #closed = false;

  constructor(origin: URL, options: UndiciClientOptions) {
    this.#origin = origin.origin;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  request(request: HttpRequest, handler: ResponseHandler): ClientRequest {
    const active = new UndiciRequest(request, handler, {
      origin: this.#origin,
      clock: this.#clock,
      headTimeoutMs: this.#options.headTimeoutMs ?? 10_000,
      bodyPauseMs: this.#options.bodyPauseMs ?? 30_000,
      phases: this.#options.phases ?? null,
      running: this.#running,
    });
    if (this.#closed) {
      process.nextTick(() => active.fail(new HttpFailure('closed', false, 'the client was closed')));
      return active.active;
    }
    this.#dispatcher ??= this.#open();
    this.#dispatcher.then(
      (dispatcher) => active.dispatch(dispatcher),
      (error) => active.fail(new HttpFailure('tls', false, (error as Error).message, error)),
    );
    return active.active;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const active of [...this.#running]) {
      active.fail(new HttpFailure('closed', active.sent, 'the client was closed'));
    }
    this.#dispatcher?.then(
      (dispatcher) => dispatcher.destroy(),
      () => {},
    );
  }

  async #open(): Promise<Dispatcher> {
    const { Agent, ProxyAgent, buildConnector } = await import('undici');
    const { tls, proxy, lookup, phases = null } = this.#options;
    const timeout = this.#options.connectTimeoutMs ?? 5_000;
    const secure = {
      ...(tls.ca === undefined ? {} : { ca: tls.ca }),
      ...(tls.cert === undefined ? {} : { cert: tls.cert }),
      ...(tls.key === undefined ? {} : { key: tls.key.reveal() }),
    };
    const limits = { pipelining: 1, maxHeaderSize: MAX_HEAD_BYTES, headersTimeout: 0, bodyTimeout: 0, allowH2: false };
    if (proxy === null) {
      const connector = buildConnector({ ...secure, lookup, timeout, allowH2: false });
      const connect: typeof connector = (options, callback) => {
        // The connector returns the socket, which its types do not declare.
        const socket = connector(options, callback) as unknown as Socket;
        if (phases !== null) timeConnect(socket, options.hostname, options.protocol === 'https:', phases, this.#clock);
      };
      return new Agent({ ...limits, connect });
    }
    return new ProxyAgent({
      ...limits,
      uri: proxy.href,
      connectTimeout: timeout,
      requestTls: secure,
      proxyTls: { lookup, timeout },
    });
  }
}
