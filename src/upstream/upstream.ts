import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import type { GatewayError, Room } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { StateLoss } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import type { ServerStatus } from '../model/server-state.ts';
import { isExclusive } from './connection/session-key.ts';
import type { RememberedCatalog } from './lists/server-catalogs.ts';
import type { StoryPart } from './status/server-story.ts';
import type { CloseReason } from './transport/transport.ts';
import { assembleUpstream, type UpstreamContext, type UpstreamParts, type UpstreamPlace } from './upstream-parts.ts';

/**
 * The running side of one server on this node: supervisor, session pool, catalogues, status. A call on an
 * established connection goes straight to it; everything else (first use, crash, restart) waits for the supervisor.
 */
export class Upstream {
  readonly #parts: UpstreamParts;
  /** What it contributes to its server's story. */
  readonly part: StoryPart;
  #ended: Promise<unknown> = Promise.resolve();

  constructor(server: Server, context: UpstreamContext & UpstreamPlace, remembered: Iterable<RememberedCatalog>) {
    this.part = context.part;
    this.#parts = assembleUpstream(server, context, remembered);
  }

  get server(): Server {
    return this.#parts.observer.server;
  }

  /** One that is suspended is disabled in fact, and the other way round; of one not started yet nothing can be said. */
  get asItRuns(): Server {
    const { server } = this;
    const { state } = this.#parts.supervisor;
    if (state === 'unknown' || state === 'stopping') return server;
    const enabled = state !== 'suspended';
    return server.enabled === enabled ? server : { ...server, enabled };
  }

  /** Takes over settings that need no new connection. */
  update(server: Server): void {
    const { catalogs, connections, boundary, observer, probe, supervisor } = this.#parts;
    boundary.run(() => {
      const { probeMs } = observer.server;
      catalogs.server = server;
      connections.update(server);
      observer.update(server);
      if (server.probeMs !== probeMs && supervisor.up) probe.begin();
    }, nothing);
  }

  start(): Promise<void> {
    return this.#parts.boundary.later(() => this.#parts.supervisor.start(), nothing);
  }

  /** Nobody has started it yet, and nobody is about to. */
  get untouched(): boolean {
    const { state, startingSince } = this.#parts.supervisor;
    return state === 'unknown' && startingSince === null;
  }

  /** Its start is to come, once those before it have begun. */
  due(): void {
    this.#parts.supervisor.due();
  }

  suspend(): Promise<void> {
    return this.#parts.boundary.later(() => this.#parts.supervisor.stop('suspended'), nothing);
  }

  /** Until it is restarted. */
  stop(): Promise<void> {
    return this.#parts.boundary.later(() => this.#parts.supervisor.stop('stopped'), nothing);
  }

  /** Closes the connection with this label of `ConnectionStatus.key`. False where there is none. */
  closeConnection(label: string): boolean {
    return this.#parts.connections.pool.closeLabelled(label);
  }

  restart(): Promise<void> {
    const { connections, boundary, lost, supervisor } = this.#parts;
    return boundary.later(() => {
      const rolling = supervisor.up ? connections.replicas.restart() : null;
      if (rolling !== null) return rolling;
      lost.clear();
      return supervisor.restart();
    }, nothing);
  }

  call(request: Message, exchange: Exchange): Promise<Outcome> {
    return this.#parts.boundary.run(() => this.#parts.dispatcher.call(request, exchange), failed);
  }

  notify(notification: Message, client: ClientProfile): void {
    this.#parts.boundary.run(() => {
      const connection = this.#parts.connections.ready(client);
      if (connection === null || !isExclusive(connection.tenancy)) return;
      if (connection.era === notification.era) connection.notify(notification);
    }, nothing);
  }

  /** Not at all, or (where one is named) not for this client. */
  failing(client: ClientProfile | null): boolean {
    const { supervisor, runs } = this.#parts;
    return supervisor.failing || (client !== null && runs.failsFor(client));
  }

  get inFlight(): number {
    let calls = 0;
    for (const connection of this.#parts.connections.pool.connections()) calls += connection.inFlight;
    return calls;
  }

  /** What a further process of it would take. */
  get room(): Room {
    return this.#parts.connections.pool.room;
  }

  knownCatalog(client: ClientProfile, orOthers: boolean): ServerCatalog | null {
    return this.#parts.shown.known(client, orOthers);
  }

  catalog(client: ClientProfile, waitMs: number, amongOthers = false): Promise<ServerCatalog | null> {
    return this.#parts.boundary.later(
      () => this.#parts.shown.get(client, waitMs, amongOthers),
      () => null,
    );
  }

  /** As `UpstreamSet.relist`. */
  relist(): Promise<void> {
    const { boundary, supervisor, upkeep } = this.#parts;
    return supervisor.up ? boundary.later(() => upkeep.heardElsewhere(), nothing) : Promise.resolve();
  }

  /** As `UpstreamSet.relistFor`. */
  relistFor(client: ClientProfile): Promise<void> {
    const { boundary, shown, supervisor } = this.#parts;
    return supervisor.up ? boundary.later(() => shown.anew(client), nothing) : Promise.resolve();
  }

  /** As `Upstreams.foundMeanwhile`. */
  listed(client: ClientProfile): Promise<boolean> {
    const { boundary, connections, upkeep } = this.#parts;
    const connection = connections.ready(client);
    if (connection === null) return Promise.resolve(false);
    return boundary.later(
      () => upkeep.settled(connection, connections.listedAs(client)),
      () => false,
    );
  }

  listedFor(): Iterable<ClientProfile> {
    return this.#parts.catalogs.kinds();
  }

  ownLists(): Iterable<readonly [string, ServerCatalog]> {
    return this.#parts.catalogs.ownLists();
  }

  sessionKey(client: ClientProfile): string | null {
    return this.#parts.connections.keyOf(client);
  }

  owns(client: ClientProfile): boolean {
    const connection = this.#parts.connections.ready(client);
    return connection !== null && isExclusive(connection.tenancy);
  }

  releaseSession(sessionId: string): void {
    this.#parts.boundary.run(() => {
      this.#parts.lost.forget(sessionId);
      this.#parts.events.released(sessionId);
      this.#parts.connections.release(sessionId);
    }, nothing);
  }

  /** As `UpstreamSet.surrender`. */
  surrender(whose: ClientProfile | 'spare' | null): Promise<void> {
    const { connections, boundary, lost } = this.#parts;
    return boundary.later(async () => {
      const serving = connections.serving(whose);
      const closed = whose === null ? this.close('remove') : null;
      lost.surrender(serving);
      await Promise.all([closed, connections.pool.surrender(serving, 'interrupt')]);
    }, nothing);
  }

  /** As `UpstreamSet.handOver`. */
  handOver(whose: ClientProfile | null): Promise<void> {
    const { connections, boundary, events, lost } = this.#parts;
    return boundary.later(async () => {
      const serving = connections.serving(whose);
      lost.surrender(serving);
      const closed = whose === null ? this.close('remove') : null;
      const keys = [...connections.pool.keys()].filter(serving);
      const left = connections.pool.surrender(serving, 'shutdown');
      // Clients that watch something over it watch it anew, over another one.
      for (const key of keys) events.ended(key);
      await Promise.all([closed, left]);
    }, nothing);
  }

  sweep(): void {
    this.#parts.boundary.run(() => this.#parts.connections.pool.sweep(), nothing);
  }

  status(): ServerStatus {
    return this.#parts.observer.status();
  }

  drained(deadlineMs: number): Promise<void> {
    return this.#parts.connections.pool.drained(deadlineMs);
  }

  /**
   * Ends it for good. What is in flight gets UNKNOWN, so drain before where it matters. `why` is what sessions are told
   * that lose state. A second one waits for the first.
   */
  close(how: CloseReason, why: StateLoss = 'restarted'): Promise<void> {
    const { runs, upkeep, connections, boundary, events, supervisor } = this.#parts;
    return boundary.later(async () => {
      runs.closing(how);
      upkeep.close();
      if (how === 'remove') {
        for (const connection of connections.pool.connections()) events.stateLost(connection, why);
        connections.replicas.forsake(why);
      }
      this.#ended = Promise.all([this.#ended, supervisor.stop()]);
      await this.#ended;
    }, nothing);
  }
}

function nothing(): void {}

function failed(error: GatewayError): Promise<Outcome> {
  return Promise.resolve(failure(error));
}
