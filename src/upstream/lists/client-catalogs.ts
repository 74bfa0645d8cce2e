import type { ClientProfile } from '../../model/client-profile.ts';
import { type Clock, within } from '../../model/clock.ts';
import type { Era } from '../../model/message.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { ownEra, type SpokenEras } from '../connection/spoken-eras.ts';
import type { ClientConnections } from '../pool/client-connections.ts';
import type { ServerCatalogs } from './server-catalogs.ts';

/** Where nobody was there at a server's address for so long, its start is one of those that come to nothing, as a rule. */
const REACH_MS = 500;

interface ClientCatalogsDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly eras: SpokenEras;
  readonly connections: ClientConnections;
  readonly catalogs: ServerCatalogs;
  /** Waits until the server is up. Rejects with GatewayError. */
  readonly up: (client: ClientProfile) => Promise<void>;
  readonly isUp: () => boolean;
  /** Whether it is up once the start that is due or under way has ended. Starts nothing. Never rejects. */
  readonly onceBegun: (client: ClientProfile) => Promise<boolean>;
  /** What has to be waited for is on this machine, or somebody was there at the server's address. */
  readonly reached: () => boolean;
  /** The server could not be started, or not again. */
  readonly failing: () => boolean;
  /** Monotonic time from which the start under way, or the one that is due, has been waited for; null without one. */
  readonly startingSince: () => number | null;
}

/** Which of one server's catalogues a client is shown: that of the era and the capabilities it is served in. */
export class ClientCatalogs {
  readonly #deps: ClientCatalogsDeps;

  constructor(deps: ClientCatalogsDeps) {
    this.#deps = deps;
  }

  /** `orOthers`: what other kinds of client are shown, in the client's own era first, is better than nothing. */
  known(client: ClientProfile, orOthers = false): ServerCatalog | null {
    const known = this.#known(client);
    return known !== null || !orOthers ? known : this.#deps.catalogs.ofOthers(this.#era(client));
  }

  #known(client: ClientProfile): ServerCatalog | null {
    const { eras, catalogs, failing } = this.#deps;
    const { fingerprint } = this.#listedAs(client);
    const era = eras.servedIn(client);
    if (era !== null) return this.#own(client) ?? catalogs.known(fingerprint, era);
    const own = ownEra(client);
    const known = catalogs.known(fingerprint, own);
    if (known !== null || (eras.newest !== null && !failing())) return known;
    // Which one is right cannot be found out now; what the server offers in the other era is better than nothing.
    return catalogs.known(fingerprint, own === 'stateful' ? 'stateless' : 'stateful');
  }

  /**
   * What is known, at once, brought up to date behind it; else the first listing, waited for so long. `amongOthers` as
   * in `Upstreams.catalog`.
   */
  async get(client: ClientProfile, patienceMs: number, amongOthers = false): Promise<ServerCatalog | null> {
    const { eras, catalogs, isUp } = this.#deps;
    if (amongOthers && !isUp()) return this.#amongOthers(client, patienceMs);
    const era = eras.servedIn(client);
    if (era !== null) return this.#own(client) ?? catalogs.get(this.#listedAs(client), era, patienceMs);
    const listed = this.#settled(client, patienceMs);
    const known = this.known(client);
    if (known !== null || patienceMs <= 0) return known;
    await this.#within(patienceMs, listed);
    return this.known(client);
  }

  tool(client: ClientProfile, name: string): Buffer | null {
    return this.#deps.catalogs.tool(this.#listedAs(client).fingerprint, this.#era(client), name, this.#own(client));
  }

  refresh(client: ClientProfile): Promise<void> {
    return this.#deps.catalogs.refresh(this.#listedAs(client), this.#era(client));
  }

  /** Lists over the client's own connection, which may be shown what others are not: all of it after now. Never rejects. */
  async anew(client: ClientProfile): Promise<void> {
    const { logger, connections, catalogs } = this.#deps;
    try {
      await connections.whileWaiting(client, async () => {
        const connection = await connections.acquire(client);
        await catalogs.anew(this.#listedAs(client), connection);
      });
    } catch (error) {
      logger.debug('list_failed', { error: error instanceof Error ? error.message : String(error) });
    }
  }

  /**
   * A list of many servers is no call to any of them (F01): a start that is due or under way is waited for, and none is
   * made for it. Whatever comes of that start, this client's list is taken then.
   */
  async #amongOthers(client: ClientProfile, patienceMs: number): Promise<ServerCatalog | null> {
    const { onceBegun, reached } = this.#deps;
    const listed = onceBegun(client).then((up) => (up ? this.get(client, patienceMs) : null));
    const known = this.known(client);
    if (known !== null) return known;
    if (!reached()) await this.#within(this.#left(Math.min(patienceMs, REACH_MS)), listed);
    if (reached()) await this.#within(this.#left(patienceMs), listed);
    return this.known(client);
  }

  /** Nobody waits for what has failed, nor for a start that was given this time already, whoever it was that asked. */
  #left(waitMs: number): number {
    const { clock, failing, startingSince } = this.#deps;
    const since = startingSince();
    return failing() || since === null ? 0 : Math.max(0, since + waitMs - clock.now());
  }

  async #within(waitMs: number, listed: Promise<unknown>): Promise<void> {
    if (waitMs > 0) await within(this.#deps.clock, waitMs, listed, () => {});
  }

  /** The first listing for a client whose era has to be found out. Never rejects. */
  async #settled(client: ClientProfile, waitMs: number): Promise<ServerCatalog | null> {
    const { logger, connections, catalogs, up } = this.#deps;
    try {
      await up(client);
      await connections.settle(client);
    } catch (error) {
      logger.warn('list_failed', { error: error instanceof Error ? error.message : String(error) });
      return null;
    }
    return catalogs.get(this.#listedAs(client), this.#era(client), waitMs);
  }

  /** What the client's own process lists; null where it has none, or that lists what a fresh one does. */
  #own(client: ClientProfile): ServerCatalog | null {
    const { catalogs, connections } = this.#deps;
    const connection = catalogs.differ ? connections.ready(client) : null;
    return connection === null ? null : catalogs.own(connection);
  }

  #listedAs(client: ClientProfile): ClientProfile {
    return this.#deps.connections.listedAs(client);
  }

  #era(client: ClientProfile): Era {
    return this.#deps.eras.servedIn(client) ?? ownEra(client);
  }
}
