import type { ClientProfile } from '../../model/client-profile.ts';
import type { Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Owned } from '../../model/ports.ts';
import type { CloseReason, NegotiatedFacts, Outgoing, Transport, TransportReceiver } from './transport.ts';

export interface OwnedTransportOptions {
  readonly server: string;
  readonly kind: Transport['kind'];
  /** Whatever has to be owned before the process is started. Rejects with GatewayError. */
  readonly own: () => Promise<Owned>;
  /** The transport of the process, which is told under which epoch it is started. */
  readonly make: (epoch: string) => Transport;
}

/**
 * The channel to a process that only one node of a cluster may serve: started under an epoch, and silent from the moment
 * in which it is another node's. What arrives on it is still passed on: whoever waits for it knows whether it counts.
 */
export class OwnedTransport implements Transport {
  readonly kind: Transport['kind'];
  readonly streamPerRequest = false;
  readonly #options: OwnedTransportOptions;
  #owned: Owned | null = null;
  #inner: Transport | null = null;
  #receiver: TransportReceiver | null = null;
  #closed = false;

  constructor(options: OwnedTransportOptions) {
    this.#options = options;
    this.kind = options.kind;
  }

  get pid(): number | null {
    return this.#inner?.pid ?? null;
  }

  get silent(): boolean {
    return this.#owned?.stillMine !== true;
  }

  async open(receiver: TransportReceiver): Promise<void> {
    const { own, make, server } = this.#options;
    const owned = await own();
    this.#owned = owned;
    try {
      if (this.#closed) throw new GatewayError('NOT_SENT', `the connection to ${server} is closed`, { server });
      const inner = make(owned.epoch);
      this.#inner = inner;
      this.#receiver = receiver;
      await inner.open(receiver);
      if (!owned.stillMine) {
        await inner.close('interrupt');
        throw this.#lost();
      }
    } catch (error) {
      owned.release();
      throw error;
    }
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    if (this.#inner !== null && this.#owned?.stillMine === true) this.#inner.send(parts, outgoing);
    else if (outgoing.request > 0) this.#receiver?.lost(outgoing.request, this.#lost());
  }

  abandon(request: number): void {
    this.#inner?.abandon(request);
  }

  flow(request: number): Flow | null {
    return this.#inner?.flow?.(request) ?? null;
  }

  negotiated(facts: NegotiatedFacts): void {
    this.#inner?.negotiated(facts);
  }

  adopted(client: ClientProfile | null): void {
    this.#owned?.adopted(client);
  }

  stderrTail(): string {
    return this.#inner?.stderrTail() ?? '';
  }

  async close(how: CloseReason): Promise<void> {
    this.#closed = true;
    await this.#inner?.close(how);
    this.#owned?.release();
  }

  #lost(): GatewayError {
    const { server } = this.#options;
    const text = `this node does not own the process of ${server} at the moment`;
    return new GatewayError('NOT_SENT', text, { server, retryable: true, retryAfterMs: 1_000 });
  }
}
