import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import type { Endpoint, Exchange, Exchanges } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { ClientStreams, UpstreamEvents, Upstreams } from '../model/ports.ts';
import type { ListKind } from '../model/server-catalog.ts';
import type { ServerStatus } from '../model/server-state.ts';
import { errorAnswer } from '../protocol/compose.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { HelloView } from './hello-view.ts';
import { refuseAccess } from './policy/access.ts';

export interface GatewayDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Who the aggregate says it is. */
  readonly info: { readonly name: string; readonly title: string; readonly version: string };
  /** 32 random bytes of this installation; seals cursors and task ids. Kept over restarts, those stay valid. */
  readonly key: Buffer;
  /** How long a list waits for servers that were never listed before; asked at each list, so that a reload counts. */
  readonly firstListWaitMs: () => number;
}

/**
 * The core: one exchange in, one outcome out. Finds where a name leads, asks the policies, dispatches to the
 * upstreams and maps what comes back; knows neither HTTP nor processes, and of eras only which words a client speaks.
 *
 * Answers carry the vocabulary they are written in (`Message.era`) and an id that means nothing: the edge translates
 * the one and puts the client's id in place of the other (`protocol/splice.withId`).
 */
export class Gateway implements Exchanges, UpstreamEvents {
  readonly #deps: GatewayDeps;
  #upstreams!: Upstreams;
  #streams!: ClientStreams;

  constructor(deps: GatewayDeps) {
    this.#deps = deps;
  }

  /** Joins the rooms on both sides, which need the gateway to be built. Once, before the first exchange. */
  attach(upstreams: Upstreams, streams: ClientStreams): void {
    this.#upstreams = upstreams;
    this.#streams = streams;
  }

  run(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    if (endpoint.kind === 'server') {
      const refused = refuseAccess(exchange.client.principal, endpoint.server);
      if (refused !== null) return Promise.resolve(failure(refused));
      return this.#upstreams.call(endpoint.server, exchange.request, exchange);
    }
    const { method } = exchange.request;
    return Promise.resolve(failure(new GatewayError('METHOD_NOT_FOUND', `Method not found: ${method}`)));
  }

  /** What the endpoint says of itself to this client; waits at most `waitMs` for servers that were never listed. */
  async hello(endpoint: Endpoint, client: ClientProfile, waitMs: number): Promise<HelloView | GatewayError> {
    const refused = refuseAccess(client.principal, endpoint.server);
    if (refused !== null) return refused;
    const catalog = await this.#upstreams.catalog(endpoint.server, client, waitMs);
    if (catalog === null)
      return new GatewayError('NOT_SENT', 'the server does not answer', { server: endpoint.server });
    const { hello } = catalog;
    return {
      serverInfo: hello.serverInfo ?? '{}',
      capabilities: hello.capabilities,
      instructions: hello.instructions,
      hello,
      ttlMs: 0,
      cacheScope: 'private',
    };
  }

  /** A notification of the client that belongs to no exchange in flight. */
  notify(endpoint: Endpoint, message: Message, client: ClientProfile): void {
    if (endpoint.kind === 'server' && refuseAccess(client.principal, endpoint.server) === null) {
      this.#upstreams.notify(endpoint.server, message, client);
    }
  }

  /** The client's session has ended: what was its own upstream is released. */
  sessionEnded(sessionId: string): void {
    this.#upstreams.releaseSession(sessionId);
  }

  notification(_server: string, sessionId: string | null, message: Message): void {
    if (sessionId !== null) this.#streams.deliver(sessionId, message);
  }

  async request(_server: string, sessionId: string | null, message: Message): Promise<Message> {
    if (sessionId !== null) return this.#streams.ask(sessionId, message);
    return errorAnswer(message.id, -32601, 'no client is attached to this connection', null, message.era);
  }

  catalogChanged(server: string, fingerprint: string, lists: readonly ListKind[]): void {
    this.#deps.logger.debug('catalog_changed', { server, fingerprint, lists: lists.join(',') });
  }

  stateLost(server: string, sessionId: string): void {
    this.#deps.logger.warn('state_lost', { server, session: sessionId });
  }

  statusChanged(server: string, status: ServerStatus): void {
    this.#deps.logger.info('server_status', { server, state: status.state, health: status.health });
  }
}
