import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import { OwnedElsewhere } from '../model/gateway-error.ts';
import type { Era } from '../model/message.ts';
import { Attempt, type WaitingCall } from './connection/attempt.ts';
import type { Connection } from './connection/connection.ts';
import { asGatewayError } from './connection/failures.ts';
import { ownEra } from './connection/spoken-eras.ts';
import type { ListUpkeep } from './lists/list-upkeep.ts';
import type { ServerCatalogs } from './lists/server-catalogs.ts';
import type { PartEvents } from './part-events.ts';
import type { ClientConnections } from './pool/client-connections.ts';
import type { LostConnections } from './pool/lost-connections.ts';
import type { ServerContext } from './server-context.ts';
import type { ServerObserver } from './status/server-observer.ts';
import type { StartQueue } from './supervision/start-queue.ts';
import type { Supervisor } from './supervision/supervisor.ts';
import type { CloseReason } from './transport/transport.ts';

/** So long after the last try that failed it is still taken for what cannot be opened. */
export const KEPT_MS = 10_000;
/** Beyond that the oldest are forgotten. */
const MAX_KEYS = 1_024;

/** Whose connection could not be opened a moment ago, beside others of the server that run. */
export class OpenFailures {
  readonly #clock: Clock;
  readonly #until = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  failed(key: string): void {
    this.opened(key);
    this.#until.set(key, this.#clock.now() + KEPT_MS);
    const [oldest] = this.#until.keys();
    if (this.#until.size > MAX_KEYS && oldest !== undefined) this.#until.delete(oldest);
  }

  opened(key: string): void {
    this.#until.delete(key);
  }

  has(key: string): boolean {
    const until = this.#until.get(key);
    if (until !== undefined && this.#clock.now() >= until) this.opened(key);
    return this.#until.has(key);
  }
}

interface ServerRunsDeps {
  readonly context: ServerContext;
  readonly supervisor: Supervisor;
  readonly connections: ClientConnections;
  readonly lost: LostConnections;
  readonly catalogs: ServerCatalogs;
  readonly upkeep: ListUpkeep;
  readonly observer: ServerObserver;
  readonly events: PartEvents;
  /** Where processes wait for a place to start in; null for a server that is none. */
  readonly starts: StartQueue | null;
}

/** Who wants a start, and in which era: null for whichever the server speaks. */
interface Wish {
  readonly profile: ClientProfile;
  readonly era: Era | null;
}

/**
 * What the runs of one server begin and end with, as its supervisor orders them, and what waits for a run: a call
 * that has no connection yet, a list that is to be taken.
 */
export class ServerRuns {
  readonly #deps: ServerRunsDeps;
  readonly #openFailures: OpenFailures;
  /** Who wanted the coming start: what is presented on the connection that it opens. */
  #wish: Wish | null = null;
  #closeReason: CloseReason = 'remove';

  constructor(deps: ServerRunsDeps) {
    this.#deps = deps;
    this.#openFailures = new OpenFailures(deps.context.deps.clock);
  }

  /** Waits until the server is up, started for this client if it is not. Rejects with GatewayError. */
  up(client: ClientProfile): Promise<void> {
    return this.#up({ profile: client, era: ownEra(client) });
  }

  /** Whether it is up once the start that is due or under way has ended; that one is for this client, none is made for it. */
  async onceBegun(client: ClientProfile): Promise<boolean> {
    const { supervisor } = this.#deps;
    if (!supervisor.up) this.#wish = { profile: client, era: ownEra(client) };
    await supervisor.begun();
    return supervisor.up;
  }

  /** The client's connection for a call of this method, once the server is up. Rejects with GatewayError. */
  async connectionFor(client: ClientProfile, method: string, call: WaitingCall): Promise<Connection> {
    const { context, supervisor, connections } = this.#deps;
    const up = this.up(client);
    if (!supervisor.up) supervisor.hasten(call);
    await up;
    const attempt = new Attempt();
    attempt.hasten(call);
    try {
      const connection = await connections.acquire(client, method, attempt);
      this.#openFailures.opened(connection.key);
      return connection;
    } catch (cause) {
      const error = asGatewayError(cause, context.name);
      const ours = error.code === 'OVERLOADED' || error.code === 'CANCELLED' || error instanceof OwnedElsewhere;
      if (!ours) {
        const key = connections.keyOf(client);
        if (key !== null) this.#openFailures.failed(key);
        supervisor.crashed(error);
      }
      throw error;
    }
  }

  /** Whether the client's own connection could not be opened a moment ago. */
  failsFor(client: ClientProfile): boolean {
    const key = this.#deps.connections.keyOf(client);
    return key !== null && this.#openFailures.has(key);
  }

  /** A connection to list the server over, once it is up. Rejects with GatewayError. */
  async listingConnection(profile: ClientProfile, era: Era): Promise<Connection> {
    await this.#up({ profile, era });
    return this.#deps.connections.forListing(profile, era);
  }

  /** One start: brings back what a crash took, else opens the connection to list the server over. */
  async launch(attempt: Attempt): Promise<void> {
    const { connections, lost, catalogs, upkeep, observer, starts } = this.#deps;
    if (starts === null) attempt.begin();
    catalogs.startedAnew();
    observer.starting();
    void attempt.begun.then(() => {
      observer.starting();
      observer.tell();
    });
    const connection = (await lost.bringBack(attempt)) ?? connections.pool.any() ?? (await this.#openFirst(attempt));
    this.#wish = null;
    upkeep.useful(connection, connection.profile);
    // What died while others were brought back.
    await lost.bringBack(attempt);
  }

  /** Who wants the start may turn out while it waits for its place. */
  async #openFirst(attempt: Attempt): Promise<Connection> {
    const { connections, catalogs, context, starts } = this.#deps;
    try {
      if (starts !== null) await starts.take(attempt);
      const { profile, era } = this.#wish ?? catalogs.latestKind ?? { profile: context.neutral, era: null };
      return await connections.first(profile, era, attempt);
    } finally {
      attempt.place?.leave();
    }
  }

  /** From now on the server's end is of this kind. */
  closing(how: CloseReason): void {
    this.#closeReason = how;
  }

  halt(): Promise<void> {
    const { connections, events } = this.#deps;
    const keys = [...connections.pool.keys()];
    const closed = connections.pool.closeAll(this.#closeReason);
    for (const key of keys) events.ended(key);
    return Promise.all([closed, connections.replicas.halt()]).then(() => {});
  }

  async #up(wish: Wish): Promise<void> {
    const { supervisor } = this.#deps;
    if (supervisor.up) return;
    this.#wish = wish;
    await supervisor.ready();
  }
}
