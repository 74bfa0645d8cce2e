import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { Upstreams } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import type { ServerStatus } from '../model/server-state.ts';
import { takesInput } from '../protocol/stateless/input-required.ts';
import type { InputStates } from './input-states.ts';

/**
 * The upstreams, with the `requestState` of their stateless servers bound to server, caller and request where the
 * exchange says so (protocol.md S3, S6). Here, because this is the one place that all ways to a server lead through.
 */
export class BoundUpstreams implements Upstreams {
  readonly #upstreams: Upstreams;
  readonly #states: InputStates;

  constructor(upstreams: Upstreams, states: InputStates) {
    this.#upstreams = upstreams;
    this.#states = states;
  }

  call(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    if (exchange.sealsInput !== true || !takesInput(request.method)) {
      return this.#upstreams.call(server, request, exchange);
    }
    const { principal } = exchange.client;
    const own = this.#states.inward(server, principal, request);
    if (own instanceof GatewayError) return Promise.resolve(failure(own));
    return this.#upstreams
      .call(server, own, exchange)
      .then((outcome) => this.#states.outward(server, principal, request, outcome));
  }

  servers(): readonly Server[] {
    return this.#upstreams.servers();
  }

  notify(server: string, notification: Message, client: ClientProfile): void {
    this.#upstreams.notify(server, notification, client);
  }

  knownCatalog(server: string, client: ClientProfile): ServerCatalog | null {
    return this.#upstreams.knownCatalog(server, client);
  }

  catalog(server: string, client: ClientProfile, waitMs: number, amongOthers?: boolean): Promise<ServerCatalog | null> {
    return this.#upstreams.catalog(server, client, waitMs, amongOthers);
  }

  connectionKey(server: string, client: ClientProfile): string | null {
    return this.#upstreams.connectionKey(server, client);
  }

  ownsConnection(server: string, client: ClientProfile): boolean {
    return this.#upstreams.ownsConnection(server, client);
  }

  status(server: string): ServerStatus | null {
    return this.#upstreams.status(server);
  }

  statuses(): readonly ServerStatus[] {
    return this.#upstreams.statuses();
  }

  restart(server: string): Promise<void> {
    return this.#upstreams.restart(server);
  }

  releaseSession(sessionId: string): void {
    this.#upstreams.releaseSession(sessionId);
  }
}
