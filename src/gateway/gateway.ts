import { aggregateCapabilities, aggregateInstructions } from '../catalog/aggregate-hello.ts';
import { CursorCodec } from '../catalog/cursor.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import type { Endpoint, Exchange, Exchanges } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { ClientStreams, UpstreamEvents, Upstreams } from '../model/ports.ts';
import { eraOf } from '../model/revision.ts';
import type { ListKind } from '../model/server-catalog.ts';
import type { ServerStatus } from '../model/server-state.ts';
import { errorAnswer } from '../protocol/compose.ts';
import type { Logger } from '../telemetry/logger.ts';
import { Aggregate } from './aggregate.ts';
import { AggregateLists } from './aggregate-lists.ts';
import { AggregateResources } from './aggregate-resources.ts';
import { AggregateTasks } from './aggregate-tasks.ts';
import { Catalogs } from './catalogs.ts';
import type { HelloView } from './hello-view.ts';
import { LogLevels } from './log-levels.ts';
import { refuseAccess } from './policy/access.ts';
import { Sealer } from './sealer.ts';
import { ServerEndpoint } from './server-endpoint.ts';
import { ServerIndex } from './server-index.ts';
import { TaskIds } from './task-ids.ts';

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
  readonly #serverInfo: string;
  #upstreams!: Upstreams;
  #streams!: ClientStreams;
  #catalogs!: Catalogs;
  #levels!: LogLevels;
  #aggregate!: Aggregate;
  #single!: ServerEndpoint;

  constructor(deps: GatewayDeps) {
    this.#deps = deps;
    this.#serverInfo = JSON.stringify(deps.info);
  }

  /** Joins the rooms on both sides, which need the gateway to be built. Once, before the first exchange. */
  attach(upstreams: Upstreams, streams: ClientStreams): void {
    const { clock, key, firstListWaitMs } = this.#deps;
    const cursors = new CursorCodec(key);
    const catalogs = new Catalogs({ upstreams, clock, cursors, serverInfo: this.#serverInfo });
    const logLevels = new LogLevels(upstreams, catalogs);
    this.#upstreams = upstreams;
    this.#streams = streams;
    this.#catalogs = catalogs;
    this.#levels = logLevels;
    this.#single = new ServerEndpoint({ upstreams, servers: new ServerIndex(upstreams), clock });
    this.#aggregate = new Aggregate({
      upstreams,
      catalogs,
      lists: new AggregateLists({ catalogs, cursors, clock, firstListWaitMs }),
      resources: new AggregateResources({ upstreams, catalogs, firstListWaitMs }),
      tasks: new AggregateTasks(upstreams, new TaskIds(new Sealer(key))),
      logLevels,
      firstListWaitMs,
    });
  }

  run(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    try {
      return this.#dispatch(exchange, endpoint).catch((cause) => this.#defect(exchange, cause));
    } catch (cause) {
      return Promise.resolve(this.#defect(exchange, cause));
    }
  }

  /** What the endpoint says of itself to this client; waits at most `waitMs` for servers that were never listed. */
  async hello(endpoint: Endpoint, client: ClientProfile, waitMs: number): Promise<HelloView | GatewayError> {
    if (endpoint.kind === 'server') {
      const refused = refuseAccess(client.principal, endpoint.server);
      return refused ?? (await this.#single.hello(endpoint.server, client, waitMs));
    }
    const catalog = await this.#catalogs.ready(client, waitMs);
    return {
      serverInfo: this.#serverInfo,
      capabilities: aggregateCapabilities(catalog, eraOf(client.revision)),
      instructions: aggregateInstructions(catalog),
      hello: null,
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
    this.#levels.forget(sessionId);
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
    this.#catalogs.invalidate();
    this.#deps.logger.debug('catalog_changed', { server, fingerprint, lists: lists.join(',') });
  }

  stateLost(server: string, sessionId: string): void {
    this.#levels.forgetServer(sessionId, server);
    this.#deps.logger.warn('state_lost', { server, session: sessionId });
  }

  statusChanged(server: string, status: ServerStatus): void {
    this.#deps.logger.info('server_status', { server, state: status.state, health: status.health });
  }

  #dispatch(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    if (endpoint.kind === 'aggregate') return this.#aggregate.run(exchange);
    const refused = refuseAccess(exchange.client.principal, endpoint.server);
    return refused === null ? this.#single.run(exchange, endpoint.server) : Promise.resolve(failure(refused));
  }

  #defect(exchange: Exchange, cause: unknown): Outcome {
    this.#deps.logger.error('exchange_failed', { request: exchange.id, error: String(cause) });
    return failure(new GatewayError('INTERNAL', 'Internal error', { cause }));
  }
}
