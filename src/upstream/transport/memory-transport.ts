import { GatewayError } from '../../model/gateway-error.ts';
import { messageOf } from '../../model/thrown.ts';
import type { ProcessLog } from '../process/log-limit.ts';
import { InFlight } from './in-flight.ts';
import type {
  ClosedReason,
  CloseReason,
  NegotiatedFacts,
  Outgoing,
  Transport,
  TransportReceiver,
} from './transport.ts';

/** A server inside this process, one object per connection. It owns the buffers that it receives. */
export interface MemoryServer {
  /** One complete message of the gateway. */
  receive(message: Buffer): void;
  /** The connection has ended; `receive` is not called any more. */
  close(): void;
}

/** The channel from the server to the gateway. */
export interface MemoryLink {
  /** One complete message of the server. It is copied; the server may reuse its buffer. */
  deliver(message: Uint8Array | string): void;
  /** The server ends by itself, as a process exits; with an error, it has crashed. */
  exit(error?: unknown): void;
}

export type MemoryServerFactory = (link: MemoryLink) => MemoryServer;

/**
 * A channel to a server in this process, for embedding and tests. It behaves like a wire: messages are copied and arrive in
 * order, after the call that sent them has returned; exceptions of the server never reach the sender: a server that throws has
 * crashed.
 */
export class MemoryTransport implements Transport {
  readonly kind = 'memory';
  readonly pid = null;
  readonly streamPerRequest = false;
  readonly #name: string;
  readonly #factory: MemoryServerFactory;
  readonly #logger: Pick<ProcessLog, 'warn'> | null;
  readonly #inFlight = new InFlight();
  #receiver: TransportReceiver | null = null;
  #server: MemoryServer | null = null;
  #state: 'new' | 'open' | 'dead' | 'closed' = 'new';

  constructor(name: string, factory: MemoryServerFactory, logger: Pick<ProcessLog, 'warn'> | null = null) {
    this.#name = name;
    this.#factory = factory;
    this.#logger = logger;
  }

  async open(receiver: TransportReceiver): Promise<void> {
    if (this.#state !== 'new') throw this.#error('NOT_SENT', 'is closed');
    this.#receiver = receiver;
    try {
      this.#server = this.#factory({
        deliver: (message) => this.#deliver(typeof message === 'string' ? Buffer.from(message) : Buffer.from(message)),
        exit: (error) => queueMicrotask(() => this.#end(error === undefined ? EXITED : this.#crashed(error))),
      });
      this.#state = 'open';
    } catch (cause) {
      this.#state = 'dead';
      throw this.#error('NOT_SENT', `could not be made: ${messageOf(cause)}`, cause);
    }
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request } = outgoing;
    if (this.#state !== 'open') {
      if (request > 0 && this.#state === 'dead') this.#receiver?.lost(request, this.#error('NOT_SENT', 'has ended'));
      return;
    }
    this.#inFlight.add(request);
    const message = Buffer.concat(parts);
    queueMicrotask(() => {
      if (this.#state !== 'open') return;
      try {
        this.#server?.receive(message);
      } catch (cause) {
        this.#end(this.#crashed(cause));
      }
    });
  }

  abandon(request: number): void {
    this.#inFlight.delete(request);
  }

  negotiated(_facts: NegotiatedFacts): void {}

  stderrTail(): string {
    return '';
  }

  async close(_how: CloseReason): Promise<void> {
    if (this.#state === 'closed') return;
    const wasOpen = this.#state === 'open';
    this.#state = 'closed';
    this.#loseAll('was closed');
    if (!wasOpen) return;
    // Asynchronous, because a `close` of the program may return a promise that rejects.
    (async () => this.#server?.close())().catch((cause: unknown) => {
      this.#logger?.warn('server_close_failed', { error: messageOf(cause) });
    });
  }

  #deliver(message: Buffer): void {
    queueMicrotask(() => {
      if (this.#state !== 'open') return;
      this.#inFlight.settle(message);
      this.#receiver?.received(message, 0);
    });
  }

  #crashed(cause: unknown): ClosedReason {
    return { kind: 'protocol', error: this.#error('UPSTREAM_PROTOCOL', `crashed: ${messageOf(cause)}`, cause) };
  }

  #end(reason: ClosedReason): void {
    if (this.#state !== 'open') return;
    this.#state = 'dead';
    this.#loseAll('ended');
    this.#receiver?.closed(reason);
  }

  #loseAll(what: string): void {
    for (const request of this.#inFlight.takeAll()) {
      this.#receiver?.lost(request, this.#error('UNKNOWN', `${what} before it answered`));
    }
  }

  #error(code: 'NOT_SENT' | 'UNKNOWN' | 'UPSTREAM_PROTOCOL', what: string, cause?: unknown): GatewayError {
    return new GatewayError(code, `The server ${this.#name} ${what}.`, { server: this.#name, cause });
  }
}

const EXITED: ClosedReason = { kind: 'exited', code: null, signal: null };
