import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import type { Era } from '../model/message.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { ClientConnections } from './client-connections.ts';
import type { ServerCatalogs } from './server-catalogs.ts';
import { ownEra, type SpokenEras } from './spoken-eras.ts';

export interface ClientCatalogsDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly eras: SpokenEras;
  readonly connections: ClientConnections;
  readonly catalogs: ServerCatalogs;
  /** Waits until the server is up. Rejects with GatewayError. */
  readonly up: (client: ClientProfile) => Promise<void>;
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

  known(client: ClientProfile): ServerCatalog | null {
    const { eras, catalogs, failing } = this.#deps;
    const { fingerprint } = this.#listedAs(client);
    const era = eras.servedIn(client);
    if (era !== null) return catalogs.known(fingerprint, era);
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
    const { clock, eras, catalogs } = this.#deps;
    const waitMs = amongOthers ? this.#patience(patienceMs) : patienceMs;
    const era = eras.servedIn(client);
    if (era !== null) return catalogs.get(this.#listedAs(client), era, waitMs);
    const listed = this.#settled(client, waitMs);
    const known = this.known(client);
    if (known !== null || waitMs <= 0) return known;
    let disarm = () => {};
    const waited = new Promise<null>((resolve) => {
      disarm = clock.after(waitMs, () => resolve(null));
    });
    const catalog = await Promise.race([listed, waited]);
    disarm();
    return catalog ?? this.known(client);
  }

  tool(client: ClientProfile, name: string): Buffer | null {
    return this.#deps.catalogs.tool(this.#listedAs(client).fingerprint, this.#era(client), name);
  }

  refresh(client: ClientProfile): Promise<void> {
    return this.#deps.catalogs.refresh(this.#listedAs(client), this.#era(client));
  }

  /** Nobody waits for what has failed, nor for a start that was given this time already, whoever it was that asked. */
  #patience(waitMs: number): number {
    const { clock, failing, startingSince } = this.#deps;
    if (failing()) return 0;
    const since = startingSince();
    return since === null ? waitMs : Math.max(0, since + waitMs - clock.now());
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

  #listedAs(client: ClientProfile): ClientProfile {
    return this.#deps.connections.listedAs(client);
  }

  #era(client: ClientProfile): Era {
    return this.#deps.eras.servedIn(client) ?? ownEra(client);
  }
}
