import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';

/**
 * A request that the gateway makes for a client outside the client's own requests. The gateway can cancel it, and the server
 * cannot ask the client through it.
 */
export class OwnExchange implements Exchange {
  readonly id: string;
  readonly request: Message;
  readonly client: ClientProfile;
  readonly takesInputRequired: boolean = false;
  readonly fresh: boolean;
  cancelled: string | null = null;
  onCancel: ((reason: string) => void) | null = null;
  sentAt: number | undefined = undefined;
  servedBy: string | undefined = undefined;
  attempts: Exchange['attempts'] = undefined;
  readonly #emitted: ((notification: Message) => void) | undefined;

  constructor(
    id: string,
    request: Message,
    client: ClientProfile,
    emitted?: (notification: Message) => void,
    fresh = false,
  ) {
    this.id = id;
    this.request = request;
    this.client = client;
    this.fresh = fresh;
    this.#emitted = emitted;
  }

  emit(notification: Message): void {
    this.#emitted?.(notification);
  }

  ask(request: Message): Promise<Message> {
    return Promise.reject(new GatewayError('METHOD_NOT_FOUND', `${request.method} cannot be asked outside a request`));
  }

  /** Notes in a client's exchange, which waits for this one, how the request was sent. */
  recordIn(exchange: Exchange): void {
    exchange.sentAt ??= this.sentAt;
    exchange.servedBy ??= this.servedBy;
    exchange.attempts ??= this.attempts;
  }

  cancel(reason: string): void {
    if (this.cancelled !== null) return;
    this.cancelled = reason;
    this.onCancel?.(reason);
  }
}
