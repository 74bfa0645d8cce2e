import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { Upstreams } from '../model/ports.ts';
import { takesInput } from '../protocol/stateless/input-required.ts';
import type { InputStates } from './input-states.ts';
import { PassingUpstreams } from './passing-upstreams.ts';

/**
 * The upstreams, with the `requestState` of their stateless servers bound to server, caller and request where the
 * exchange says so (proto:S3, proto:S6). Here, because this is the one place that all ways to a server lead through.
 */
export class BoundUpstreams extends PassingUpstreams {
  readonly #states: InputStates;

  constructor(upstreams: Upstreams, states: InputStates) {
    super(upstreams);
    this.#states = states;
  }

  override call(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    if (exchange.sealsInput !== true || !takesInput(request.method)) {
      return super.call(server, request, exchange);
    }
    const { principal } = exchange.client;
    const own = this.#states.inward(server, principal, request);
    if (own instanceof GatewayError) return Promise.resolve(failure(own));
    return super
      .call(server, own, exchange)
      .then((outcome) => this.#states.outward(server, principal, request, outcome));
  }
}
