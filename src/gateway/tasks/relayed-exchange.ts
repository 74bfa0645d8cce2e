import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange, Flow } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';

/** What is done to messages on their way between a server and the client of the exchange. */
export interface Mappings {
  /** null keeps the notification from the client. */
  readonly emitted?: (notification: Message) => Message | null;
  readonly asked?: (request: Message) => Message;
  readonly answered?: (answer: Message) => Message;
}

/**
 * An exchange within another: the same client, cancelled with it, but with a request of its own and with mappings on
 * the way back. For what an aggregate has to rewrite, and for requests that the gateway makes on a client's behalf.
 * Only made where needed; a plain call uses the client's own exchange.
 */
export class RelayedExchange implements Exchange {
  readonly id: string;
  readonly request: Message;
  readonly client: ClientProfile;
  readonly #outer: Exchange;
  readonly #mappings: Mappings;

  /** `client` is whom the server takes it to be, where that is not the client of the outer exchange as it is now. */
  constructor(outer: Exchange, request: Message, mappings: Mappings, client: ClientProfile = outer.client) {
    this.id = outer.id;
    this.request = request;
    this.client = client;
    this.#outer = outer;
    this.#mappings = mappings;
  }

  get takesInputRequired(): boolean {
    return this.#outer.takesInputRequired;
  }

  get sealsInput(): boolean {
    return this.#outer.sealsInput === true;
  }

  get paramHeaders(): Readonly<Record<string, string>> | null {
    return this.#outer.paramHeaders ?? null;
  }

  get cancelled(): string | null {
    return this.#outer.cancelled;
  }

  get onCancel(): ((reason: string) => void) | null {
    return this.#outer.onCancel;
  }

  set onCancel(handler: ((reason: string) => void) | null) {
    this.#outer.onCancel = handler;
  }

  emit(notification: Message, flow: Flow | null = null): void {
    const { emitted } = this.#mappings;
    const mapped = emitted === undefined ? notification : emitted(notification);
    if (mapped !== null) this.#outer.emit(mapped, flow);
  }

  async ask(request: Message, likely = false): Promise<Message> {
    const { asked, answered } = this.#mappings;
    const reply = await this.#outer.ask(asked === undefined ? request : asked(request), likely);
    return answered === undefined ? reply : answered(reply);
  }
}
