import type { PhaseTimes } from '../../http/client/phase-times.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { within } from '../../model/clock.ts';
import type { Era } from '../../model/message.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { ownEra, type SpokenEras } from '../connection/spoken-eras.ts';
import type { ClientConnections } from '../pool/client-connections.ts';
import type { ServerContext } from '../server-context.ts';
import type { ServerRuns } from '../server-runs.ts';
import type { Supervisor } from '../supervision/supervisor.ts';
import type { ServerCatalogs } from './server-catalogs.ts';

/** A start of a server whose address did not answer for so long fails, as a rule. */
const REACH_MS = 500;

interface ClientCatalogsDeps {
  readonly context: ServerContext;
  readonly eras: SpokenEras;
  readonly connections: ClientConnections;
  readonly catalogs: ServerCatalogs;
  readonly supervisor: Supervisor;
  readonly runs: ServerRuns;
  /** Where a server behind a URL spends its time; null for others. */
  readonly phases: PhaseTimes | null;
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
    const { eras, catalogs, supervisor } = this.#deps;
    const { fingerprint } = this.#listedAs(client);
    const era = eras.servedIn(client);
    if (era !== null) return this.#own(client) ?? catalogs.known(fingerprint, era);
    const own = ownEra(client);
    const known = catalogs.known(fingerprint, own);
    if (known !== null || (eras.newest !== null && !supervisor.failing)) return known;
    // Which one is right cannot be found out now; what the server offers in the other era is better than nothing.
    return catalogs.known(fingerprint, own === 'stateful' ? 'stateless' : 'stateful');
  }

  /**
   * What is known, at once, brought up to date behind it; else the first listing, waited for so long. `amongOthers` as
   * in `Upstreams.catalog`.
   */
  async get(client: ClientProfile, patienceMs: number, amongOthers = false): Promise<ServerCatalog | null> {
    const { eras, catalogs, supervisor } = this.#deps;
    if (amongOthers && !supervisor.up) return this.#amongOthers(client, patienceMs);
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
    const { context, connections, catalogs } = this.#deps;
    try {
      await connections.whileWaiting(client, async () => {
        const connection = await connections.acquire(client);
        await catalogs.anew(this.#listedAs(client), connection);
      });
    } catch (error) {
      context.logger.debug('list_failed', { error: error instanceof Error ? error.message : String(error) });
    }
  }

  /**
   * A list of many servers is no call to any of them (F01): a start that is due or under way is waited for, and none is
   * made for it. Whatever comes of that start, this client's list is taken then.
   */
  async #amongOthers(client: ClientProfile, patienceMs: number): Promise<ServerCatalog | null> {
    const listed = this.#deps.runs.onceBegun(client).then((up) => (up ? this.get(client, patienceMs) : null));
    const known = this.known(client);
    if (known !== null) return known;
    if (!this.#reached) await this.#within(this.#left(Math.min(patienceMs, REACH_MS)), listed);
    if (this.#reached) await this.#within(this.#left(patienceMs), listed);
    return this.known(client);
  }

  /** What has to be waited for is on this machine, or something answered at the server's address. */
  get #reached(): boolean {
    const { phases } = this.#deps;
    return phases === null || phases.reached;
  }

  /** A list does not wait for what has failed, nor for a start that was given this time already for any list. */
  #left(waitMs: number): number {
    const { context, supervisor } = this.#deps;
    const since = supervisor.startingSince;
    return supervisor.failing || since === null ? 0 : Math.max(0, since + waitMs - context.deps.clock.now());
  }

  async #within(waitMs: number, listed: Promise<unknown>): Promise<void> {
    if (waitMs > 0) await within(this.#deps.context.deps.clock, waitMs, listed, () => {});
  }

  /** The first listing for a client whose era has to be found out. Never rejects. */
  async #settled(client: ClientProfile, waitMs: number): Promise<ServerCatalog | null> {
    const { context, connections, catalogs, runs } = this.#deps;
    try {
      await runs.up(client);
      await connections.settle(client);
    } catch (error) {
      context.logger.warn('list_failed', { error: error instanceof Error ? error.message : String(error) });
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
