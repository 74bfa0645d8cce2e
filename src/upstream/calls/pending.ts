import type { Exchange } from '../../model/exchange.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { ClosedReason } from '../transport/transport.ts';

/** One request of ours that a connection has in flight. Exactly one of `answered` and `lost` is called, once. */
export interface Pending {
  /** null for requests of the gateway's own (handshake, lists, pings). */
  readonly exchange: Exchange | null;
  readonly method: string;
  /** The request as its sender wrote it; its id is what the server's mentions of ours are turned back into. */
  readonly request: Message | null;
  token: string | null;
  /** Its id, and its progress token, as the server got it. */
  wire: string;
  /** Hears of what the server says on a subscription of the gateway's own. */
  readonly told?: ((message: Message) => void) | null;
  answered(message: Message): void;
  lost(error: GatewayError): void;
  /** The server reported progress of it. */
  progressed(): void;
  /** The server asks its client something: until it `goesOn`, time is not the server's. */
  waits(): void;
  goesOn(): void;
}

/** The requests that a connection has in flight, by our ids, for those who only look. */
export interface PendingById {
  get(id: number): Pending | undefined;
  /** In no order. */
  values(): readonly Pending[];
  inOrder(): readonly Pending[];
  /** The last one sent that is wanted. */
  last(wanted: (pending: Pending) => boolean): Pending | undefined;
}

/** Who has a pending request in flight, as the request sees it. */
export interface Carrier {
  /** Why it ended by itself; null while it lives or was closed by us. */
  readonly ended: ClosedReason | null;
  /**
   * Forgets the request and tells the server that nobody waits for it. Neither `answered` nor `lost` follows. False when
   * the server certainly knows nothing of it.
   */
  withdraw(id: number, why: 'timeout' | 'cancelled', reason: string): boolean;
}

/** A request of the gateway's own, as a promise. */
export class OwnRequest implements Pending {
  readonly exchange = null;
  readonly method: string;
  readonly request = null;
  token: string | null = null;
  wire = '';
  told: ((message: Message) => void) | null = null;
  readonly answer: Promise<Message>;
  #resolve!: (message: Message) => void;
  #reject!: (error: GatewayError) => void;

  constructor(method: string) {
    this.method = method;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  answered(message: Message): void {
    this.#resolve(message);
  }

  lost(error: GatewayError): void {
    this.#reject(error);
  }

  progressed(): void {}

  waits(): void {}

  goesOn(): void {}
}
