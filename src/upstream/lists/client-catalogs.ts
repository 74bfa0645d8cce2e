import type { ClientProfile } from '../../model/client-profile.ts';
import { withTimeout } from '../../model/clock.ts';
import type { Era } from '../../model/message.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { messageOf } from '../../model/thrown.ts';
import { ownEra } from '../connection/supported-eras.ts';
import type { UpstreamParts } from '../upstream-parts.ts';

/** How long a list waits for a server's address to answer; a server that is silent for longer usually fails to start. */
const REACH_MS = 500;

/** Selects the catalog that a client of one server sees: that of the era and the capabilities in which it is served. */
export class ClientCatalogs {
  readonly #parts: UpstreamParts;

  constructor(parts: UpstreamParts) {
    this.#parts = parts;
  }

  /** `orOthers`: if none is known, a catalog of other kinds of client, preferably of the client's own era. */
  known(client: ClientProfile, orOthers = false): ServerCatalog | null {
    const known = this.#known(client);
    return known !== null || !orOthers ? known : this.#parts.catalogs.ofOthers(this.#era(client));
  }

  #known(client: ClientProfile): ServerCatalog | null {
    const { eras, catalogs, supervisor } = this.#parts;
    const { fingerprint } = this.#listedAs(client);
    const era = eras.eraFor(client);
    if (era !== null) return this.#own(client) ?? catalogs.known(fingerprint, era);
    const own = ownEra(client);
    const known = catalogs.known(fingerprint, own);
    if (known !== null || (eras.newest !== null && !supervisor.failing)) return known;
    // The right era cannot be determined now; the catalog of the other era is better than none.
    return catalogs.known(fingerprint, own === 'stateful' ? 'stateless' : 'stateful');
  }

  /** The known catalog, at once; else waits this long for the first listing. `amongOthers` as in `Upstreams.catalog`. */
  async get(client: ClientProfile, patienceMs: number, amongOthers = false): Promise<ServerCatalog | null> {
    const { eras, catalogs, supervisor } = this.#parts;
    if (amongOthers && !supervisor.up) return this.#amongOthers(client, patienceMs);
    const era = eras.eraFor(client);
    if (era !== null) return this.#own(client) ?? catalogs.get(this.#listedAs(client), era, patienceMs);
    const listed = this.#settled(client, patienceMs);
    const known = this.known(client);
    if (known !== null || patienceMs <= 0) return known;
    await this.#within(patienceMs, listed);
    return this.known(client);
  }

  tool(client: ClientProfile, name: string): Buffer | null {
    return this.#parts.catalogs.tool(this.#listedAs(client).fingerprint, this.#era(client), name, this.#own(client));
  }

  refresh(client: ClientProfile): Promise<void> {
    return this.#parts.catalogs.refresh(this.#listedAs(client), this.#era(client));
  }

  /** Lists over the client's own connection, which may have lists of its own, with requests sent from now on. Never rejects. */
  async relist(client: ClientProfile): Promise<void> {
    const { context, connections, catalogs } = this.#parts;
    try {
      await connections.whileWaiting(client, async () => {
        const connection = await connections.acquire(client);
        await catalogs.relist(this.#listedAs(client), connection);
      });
    } catch (error) {
      context.logger.debug('list_failed', { error: messageOf(error) });
    }
  }

  /** A list over many servers waits for a start that is due or in progress, and does not start the server (F01). */
  async #amongOthers(client: ClientProfile, patienceMs: number): Promise<ServerCatalog | null> {
    const listed = this.#parts.supervisor.waitForStart(client).then((up) => (up ? this.get(client, patienceMs) : null));
    const known = this.known(client);
    if (known !== null) return known;
    if (!this.#reached) await this.#within(this.#left(Math.min(patienceMs, REACH_MS)), listed);
    if (this.#reached) await this.#within(this.#left(patienceMs), listed);
    return this.known(client);
  }

  /** The server is local, or its address has answered at least once. */
  get #reached(): boolean {
    const { phases } = this.#parts;
    return phases === null || phases.reached;
  }

  /** Remaining wait: 0 for a failing server; the time since its start began is deducted, whichever list waited. */
  #left(waitMs: number): number {
    const { context, supervisor } = this.#parts;
    const since = supervisor.startingSince;
    return supervisor.failing || since === null ? 0 : Math.max(0, since + waitMs - context.deps.clock.now());
  }

  async #within(waitMs: number, listed: Promise<unknown>): Promise<void> {
    if (waitMs > 0) await withTimeout(this.#parts.context.deps.clock, waitMs, listed, () => {});
  }

  /** The first listing for a client whose era must be detected. Never rejects. */
  async #settled(client: ClientProfile, waitMs: number): Promise<ServerCatalog | null> {
    const { context, connections, catalogs, supervisor } = this.#parts;
    try {
      await supervisor.readyFor(client);
      await connections.settle(client);
    } catch (error) {
      context.logger.warn('list_failed', { error: messageOf(error) });
      return null;
    }
    return catalogs.get(this.#listedAs(client), this.#era(client), waitMs);
  }

  /** The catalog of the client's own process; null if it has none, or if that equals the catalog of a fresh process. */
  #own(client: ClientProfile): ServerCatalog | null {
    const { catalogs, connections } = this.#parts;
    const connection = catalogs.own.differ ? connections.ready(client) : null;
    return connection === null ? null : (catalogs.own.of(connection)?.catalog ?? null);
  }

  #listedAs(client: ClientProfile): ClientProfile {
    return this.#parts.connections.listedAs(client);
  }

  #era(client: ClientProfile): Era {
    return this.#parts.eras.eraFor(client) ?? ownEra(client);
  }
}
