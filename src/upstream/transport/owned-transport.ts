import type { ClientProfile } from '../../model/client-profile.ts';
import { GatewayError, notOwned } from '../../model/gateway-error.ts';
import type { OwnedProcess } from '../../model/ports.ts';
import type { TransportKind } from '../../model/server.ts';
import type {
  ClosedReason,
  CloseReason,
  NegotiatedFacts,
  Outgoing,
  Transport,
  TransportReceiver,
} from './transport.ts';

interface OwnedTransportOptions {
  readonly server: string;
  readonly kind: TransportKind;
  /** Acquires the ownership that the node needs before the process is started. Rejects with GatewayError. */
  readonly own: () => Promise<OwnedProcess>;
  /** Creates the transport of the process, which is started under the epoch of `owned`. */
  readonly make: (owned: OwnedProcess) => Transport;
}

/**
 * The channel to a process that only one node of a cluster may serve: started under an epoch, and silent as soon as this node
 * no longer owns it. Output of the process is still passed to the receiver.
 */
export class OwnedTransport implements Transport, TransportReceiver {
  readonly kind: TransportKind;
  readonly streamPerRequest = false;
  readonly #options: OwnedTransportOptions;
  #owned: OwnedProcess | null = null;
  #inner: Transport | null = null;
  #receiver: TransportReceiver | null = null;
  #closed = false;
  /** The process ended by itself, before `close`. */
  #ended = false;
  #released = false;

  constructor(options: OwnedTransportOptions) {
    this.#options = options;
    this.kind = options.kind;
  }

  get pid(): number | null {
    return this.#inner?.pid ?? null;
  }

  get silent(): boolean {
    return this.#owned?.isHeld !== true;
  }

  async open(receiver: TransportReceiver): Promise<void> {
    const { own, make, server } = this.#options;
    const owned = await own();
    this.#owned = owned;
    try {
      if (this.#closed) throw new GatewayError('NOT_SENT', `the connection to ${server} is closed`, { server });
      const inner = make(owned);
      this.#inner = inner;
      this.#receiver = receiver;
      await inner.open(this);
      if (!owned.isHeld) {
        await inner.close('interrupt');
        throw notOwned(server);
      }
    } catch (error) {
      this.#release();
      throw error;
    }
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request } = outgoing;
    const { server } = this.#options;
    if (!this.#ended && this.#owned?.isHeld === true && this.#inner !== null) this.#inner.send(parts, outgoing);
    else if (request > 0) {
      this.lost(request, this.#ended ? endedProcess(server) : notOwned(server));
    }
  }

  abandon(request: number): void {
    this.#inner?.abandon(request);
  }

  negotiated(facts: NegotiatedFacts): void {
    this.#inner?.negotiated(facts);
    this.#owned?.ready();
  }

  adopted(client: ClientProfile | null): void {
    this.#owned?.assignTo(client);
  }

  stderrTail(): string {
    return this.#inner?.stderrTail() ?? '';
  }

  async close(how: CloseReason): Promise<void> {
    this.#closed = true;
    await this.#close(how);
  }

  // Output of the process is passed on.

  received(bytes: Buffer, request: number): void {
    this.#receiver?.received(bytes, request);
  }

  lost(request: number, error: GatewayError): void {
    this.#receiver?.lost(request, error);
  }

  /** The process ended by itself: what it left behind is ended too. */
  closed(reason: ClosedReason): void {
    this.#receiver?.closed(reason);
    this.#ended = true;
    void this.#close('interrupt');
  }

  /** Releases the ownership when nothing is left of the process. */
  async #close(how: CloseReason): Promise<void> {
    this.#owned?.ending();
    await this.#inner?.close(how);
    this.#release();
  }

  #release(): void {
    if (this.#owned === null || this.#released) return;
    this.#released = true;
    this.#owned.release();
  }
}

function endedProcess(server: string): GatewayError {
  const text = `the process of ${server} has ended`;
  return new GatewayError('NOT_SENT', text, { server, retryable: true, retryAfterMs: 1_000 });
}
