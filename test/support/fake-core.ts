import type { HandshakeView } from '../../src/gateway/resolve/resolver.ts';
import type { ClientProfile } from '../../src/model/client-profile.ts';
import type { Endpoint, Exchange } from '../../src/model/exchange.ts';
import { GatewayError } from '../../src/model/gateway-error.ts';
import type { Message } from '../../src/model/message.ts';
import { answer, failure, type Outcome } from '../../src/model/outcome.ts';
import { result } from '../../src/protocol/compose.ts';
import { isClientRequest } from '../../src/protocol/methods.ts';

export type Handler = (exchange: Exchange, endpoint: Endpoint) => Outcome | Promise<Outcome>;

/** The gateway's core without servers: the test defines what each method does. */
export class FakeCore {
  readonly handlers = new Map<string, Handler>();
  readonly ran: Exchange[] = [];
  readonly notified: { readonly endpoint: Endpoint; readonly message: Message; readonly client: ClientProfile }[] = [];
  readonly ended: string[] = [];
  handshakeAnswer: HandshakeView | GatewayError = {
    serverInfo: '{"name":"fake","version":"1"}',
    capabilities: '{"tools":{"listChanged":true},"logging":{}}',
    instructions: 'be kind',
    handshake: null,
    ttlMs: 5,
    cacheScope: 'private',
  };

  on(method: string, handler: Handler): this {
    this.handlers.set(method, handler);
    return this;
  }

  async run(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    this.ran.push(exchange);
    const handler = this.handlers.get(exchange.request.method);
    if (handler !== undefined) return handler(exchange, endpoint);
    const { method, era } = exchange.request;
    return isClientRequest(method, era)
      ? ok(exchange, `{"method":"${method}"}`)
      : failure(new GatewayError('METHOD_NOT_FOUND', `Method not found: ${method}`));
  }

  async handshake(_endpoint: Endpoint, _client: ClientProfile): Promise<HandshakeView | GatewayError> {
    return this.handshakeAnswer;
  }

  notify(endpoint: Endpoint, message: Message, client: ClientProfile): void {
    this.notified.push({ endpoint, message, client });
  }

  sessionEnded(sessionId: string): void {
    this.ended.push(sessionId);
  }
}

/** An answer as from a server: in the era of the request, under an arbitrary id. */
export function ok(exchange: Exchange, json: string): Outcome {
  return answer(result('0', json, exchange.request.era));
}
