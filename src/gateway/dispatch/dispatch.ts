import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Upstreams } from '../../model/ports.ts';
import { takesInput } from '../../protocol/stateless/input-required.ts';
import { refuseAccess } from '../policy/access.ts';
import type { InputStates } from './input-states.ts';

/** What is known of servers. All of the gateway but `Dispatch` has this part of the port: it cannot call a server. */
export type KnownServers = Omit<Upstreams, 'call'>;

/** Requests that end what an earlier request began. The gateway sends them when a caller has lost its rights, too. */
const ENDING: ReadonlySet<string> = new Set(['resources/unsubscribe', 'tasks/cancel']);

/**
 * The only way from this room to a server: every request of a client, and the gateway's own on a client's behalf, is sent here
 * (decision 064). `ping` of an embedding program does not come this way. Refuses a caller that may not use the server, whatever led there. The `requestState` of stateless
 * servers is bound to server, caller and request where the exchange says so (proto:S3, proto:S6).
 */
export class Dispatch {
  readonly #upstreams: Pick<Upstreams, 'call'>;
  readonly #states: InputStates;

  constructor(upstreams: Pick<Upstreams, 'call'>, states: InputStates) {
    this.#upstreams = upstreams;
    this.#states = states;
  }

  /** As `Upstreams.call`. */
  call(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    const { principal } = exchange.client;
    const refused = refuseAccess(principal, server);
    if (refused !== null && !ENDING.has(request.method)) return Promise.resolve(failure(refused));
    if (exchange.sealsInput !== true || !takesInput(request.method)) {
      return this.#upstreams.call(server, request, exchange);
    }
    const own = this.#states.inward(server, principal, request);
    if (own instanceof GatewayError) return Promise.resolve(failure(own));
    return this.#upstreams
      .call(server, own, exchange)
      .then((outcome) => this.#states.outward(server, principal, request, outcome));
  }
}
