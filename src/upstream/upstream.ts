import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import type { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { StateLoss } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import { LISTEN } from '../protocol/methods.ts';
import { ended, spanOf, traceOf, withTrace } from '../protocol/trace-context.ts';
import { isExclusive } from './connection/session-key.ts';
import { Dispatcher } from './dispatcher.ts';
import { ErrorBoundary } from './error-boundary.ts';
import { ClientCatalogs } from './lists/client-catalogs.ts';
import type { RememberedCatalog } from './lists/server-catalogs.ts';
import type { ServerStory } from './status/server-story.ts';
import type { CloseReason } from './transport/transport.ts';
import { type NodeShared, UpstreamParts } from './upstream-parts.ts';

/** `network.transport` of spans; null for a server in this process. */
const WIRES = { stdio: 'pipe', docker: 'pipe', http: 'tcp', sse: 'tcp', json: 'tcp', memory: null } as const;

/** The running side of one server on this node, behind its error boundary. */
export class Upstream {
  readonly parts: UpstreamParts;
  readonly boundary: ErrorBoundary;
  readonly #dispatcher: Dispatcher;
  readonly #shown: ClientCatalogs;
  #ended: Promise<unknown> = Promise.resolve();

  constructor(server: Server, node: NodeShared, story: ServerStory, remembered: Iterable<RememberedCatalog>) {
    const parts = new UpstreamParts(server, node, story, remembered);
    this.parts = parts;
    this.#shown = new ClientCatalogs(parts);
    this.#dispatcher = new Dispatcher(parts, this.#shown);
    this.boundary = new ErrorBoundary(server.name, parts.context.logger, parts.supervisor);
  }

  get server(): Server {
    return this.parts.context.server;
  }

  /** One that is suspended is disabled in fact, and the other way round; of one not started yet nothing can be said. */
  get asItRuns(): Server {
    const { server } = this;
    const { state } = this.parts.supervisor;
    if (state === 'unknown' || state === 'stopping') return server;
    const enabled = state !== 'suspended';
    return server.enabled === enabled ? server : { ...server, enabled };
  }

  /** Takes over settings that need no new connection. */
  update(server: Server): void {
    this.boundary.run(() => {
      const { context, connections, observer, supervisor, health } = this.parts;
      const { probeMs } = context.server;
      context.server = server;
      connections.replicas.update();
      observer.tell();
      if (server.probeMs !== probeMs && supervisor.up) health.beginProbing();
    }, nothing);
  }

  start(): Promise<void> {
    return this.#later(() => this.parts.supervisor.start());
  }

  /** It was not started yet, and no start is due. */
  get untouched(): boolean {
    const { state, startingSince } = this.parts.supervisor;
    return state === 'unknown' && startingSince === null;
  }

  suspend(): Promise<void> {
    return this.#later(() => this.parts.supervisor.stop('suspended'));
  }

  /** Until it is restarted. */
  stop(): Promise<void> {
    return this.#later(() => this.parts.supervisor.stop('stopped'));
  }

  /** Closes the connection with this label of `ConnectionStatus.key`. False where there is none. */
  closeConnection(label: string): boolean {
    return this.parts.connections.pool.closeLabelled(label);
  }

  restart(): Promise<void> {
    const { supervisor, connections } = this.parts;
    return this.#later(() => {
      const rolling = supervisor.up ? connections.replicas.restart() : null;
      if (rolling !== null) return rolling;
      connections.lost.clear();
      return supervisor.restart();
    });
  }

  /** As `Upstreams.call`. Within a span of kind `client`, whose `traceparent` the server gets in `_meta` and over HTTP as header. */
  call(request: Message, exchange: Exchange): Promise<Outcome> {
    const { tracer } = this.parts.context.deps;
    if (tracer == null || request.method === LISTEN) return this.#call(request, exchange, null);
    const { name, attributes } = spanOf(request);
    attributes['trunkline.server'] = this.server.name;
    const transport = WIRES[this.server.transport.type];
    if (transport !== null) attributes['network.transport'] = transport;
    const span = tracer.begin(name, 'client', attributes, traceOf(request));
    if (span === null) return this.#call(request, exchange, null);
    const { traceparent } = span;
    return ended(span, this.#call(withTrace(request, traceparent), exchange, traceparent));
  }

  #call(request: Message, exchange: Exchange, trace: string | null): Promise<Outcome> {
    return this.boundary.run(() => this.#dispatcher.call(request, exchange, trace), failed);
  }

  notify(notification: Message, client: ClientProfile): void {
    this.boundary.run(() => {
      const connection = this.parts.connections.ready(client);
      if (connection === null || !isExclusive(connection.tenancy)) return;
      if (connection.era === notification.era) connection.notify(notification);
    }, nothing);
  }

  /** Not at all, or (where one is named) not for this client. */
  failing(client: ClientProfile | null): boolean {
    return this.parts.supervisor.failing || (client !== null && this.#dispatcher.failsFor(client));
  }

  get inFlight(): number {
    let calls = 0;
    for (const connection of this.parts.connections.pool.connections()) calls += connection.inFlight;
    return calls;
  }

  knownCatalog(client: ClientProfile, orOthers: boolean): ServerCatalog | null {
    return this.#shown.known(client, orOthers);
  }

  catalog(client: ClientProfile, waitMs: number, amongOthers = false): Promise<ServerCatalog | null> {
    return this.boundary.later(
      () => this.#shown.get(client, waitMs, amongOthers),
      () => null,
    );
  }

  /** As `UpstreamSet.relist`. */
  relist(): Promise<void> {
    const { supervisor, upkeep } = this.parts;
    return supervisor.up ? this.#later(() => upkeep.heardElsewhere()) : Promise.resolve();
  }

  /** As `UpstreamSet.relistFor`. */
  relistFor(client: ClientProfile): Promise<void> {
    return this.parts.supervisor.up ? this.#later(() => this.#shown.relist(client)) : Promise.resolve();
  }

  /** As `Upstreams.foundMeanwhile`. */
  listed(client: ClientProfile): Promise<boolean> {
    const { connections, upkeep } = this.parts;
    const connection = connections.ready(client);
    if (connection === null) return Promise.resolve(false);
    return this.boundary.later(
      () => upkeep.settled(connection, connections.listedAs(client)),
      () => false,
    );
  }

  owns(client: ClientProfile): boolean {
    const connection = this.parts.connections.ready(client);
    return connection !== null && isExclusive(connection.tenancy);
  }

  releaseSession(sessionId: string): void {
    this.boundary.run(() => {
      this.parts.released(sessionId);
      this.parts.connections.release(sessionId);
    }, nothing);
  }

  /** As `UpstreamSet.surrender`. */
  surrender(whose: ClientProfile | 'spare' | null): Promise<void> {
    const { connections } = this.parts;
    return this.#later(async () => {
      const closed = whose === null ? this.close('remove') : null;
      await Promise.all([closed, connections.surrender(connections.serving(whose), 'interrupt')]);
    });
  }

  /** As `UpstreamSet.handOver`. */
  handOver(whose: ClientProfile | null): Promise<void> {
    const { connections } = this.parts;
    return this.#later(async () => {
      const serving = connections.serving(whose);
      const closed = whose === null ? this.close('remove') : null;
      const keys = [...connections.pool.keys()].filter(serving);
      const left = connections.surrender(serving, 'shutdown');
      // Clients that watch something over it watch it anew, over another one.
      for (const key of keys) this.parts.ended(key);
      await Promise.all([closed, left]);
    });
  }

  sweep(): void {
    this.boundary.run(() => this.parts.connections.pool.sweep(), nothing);
  }

  /** Ends it for good; what is in flight gets UNKNOWN. `why`: for sessions that lose state. */
  close(how: CloseReason, why: StateLoss = 'restarted'): Promise<void> {
    const { connections, upkeep, supervisor } = this.parts;
    return this.#later(async () => {
      this.parts.closeReason = how;
      upkeep.close();
      if (how === 'remove') {
        for (const connection of connections.pool.connections()) this.parts.stateLost(connection, why);
        connections.replicas.abandonCalls(why);
      }
      this.#ended = Promise.all([this.#ended, supervisor.stop()]);
      await this.#ended;
    });
  }

  #later(work: () => Promise<void>): Promise<void> {
    return this.boundary.later(work, nothing);
  }
}

function nothing(): void {}

function failed(error: GatewayError): Promise<Outcome> {
  return Promise.resolve(failure(error));
}
