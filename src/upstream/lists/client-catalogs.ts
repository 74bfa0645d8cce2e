import type { ClientProfile } from '../../model/client-profile.ts';
import { within } from '../../model/clock.ts';
import type { Era } from '../../model/message.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { ownEra } from '../connection/spoken-eras.ts';
import type { UpstreamParts } from '../upstream-parts.ts';

/** A start of a server whose address did not answer for so long fails, as a rule. */
const REACH_MS = 500;

/** Which of one server's catalogues a client is shown: that of the era and the capabilities it is served in. */
export class ClientCatalogs {
  readonly #parts: UpstreamParts;

  constructor(parts: UpstreamParts) {
    this.#parts = parts;
  }

  /** `orOthers`: what other kinds of client are shown, in the client's own era first, is better than nothing. */
  known(client: ClientProfile, orOthers = false): ServerCatalog | null {
    const known = this.#known(client);
    return known !== null || !orOthers ? known : this.#parts.catalogs.ofOthers(this.#era(client));
  }

  #known(client: ClientProfile): ServerCatalog | null {
    const { eras, catalogs, supervisor } = this.#parts;
    const { fingerprint } = this.#listedAs(client);
    const era = eras.servedIn(client);
    if (era !== null) return this.#own(client) ?? catalogs.known(fingerprint, era);
    const own = ownEra(client);
    const known = catalogs.known(fingerprint, own);
    if (known !== null || (eras.newest !== null && !supervisor.failing)) return known;
    // Which one is right cannot be found out now; what the server offers in the other era is better than nothing.
    return catalogs.known(fingerprint, own === 'stateful' ? 'stateless' : 'stateful');
  }

  /** What is known, at once; else the first listing, waited for so long. `amongOthers` as in `Upstreams.catalog`. */
  async get(client: ClientProfile, patienceMs: number, amongOthers = false): Promise<ServerCatalog | null> {
    const { eras, catalogs, supervisor } = this.#parts;
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
    return this.#parts.catalogs.tool(this.#listedAs(client).fingerprint, this.#era(client), name, this.#own(client));
  }

  refresh(client: ClientProfile): Promise<void> {
    return this.#parts.catalogs.refresh(this.#listedAs(client), this.#era(client));
  }

  /** Lists over the client's own connection, which may be shown what others are not: all of it after now. Never rejects. */
  async relist(client: ClientProfile): Promise<void> {
    const { context, connections, catalogs } = this.#parts;
    try {
      await connections.whileWaiting(client, async () => {
        const connection = await connections.acquire(client);
        await catalogs.relist(this.#listedAs(client), connection);
      });
    } catch (error) {
      context.logger.debug('list_failed', { error: error instanceof Error ? error.message : String(error) });
    }
  }

  /** A list of many servers waits for a start that is due or under way, and makes none (F01). */
  async #amongOthers(client: ClientProfile, patienceMs: number): Promise<ServerCatalog | null> {
    const listed = this.#parts.supervisor.begunFor(client).then((up) => (up ? this.get(client, patienceMs) : null));
    const known = this.known(client);
    if (known !== null) return known;
    if (!this.#reached) await this.#within(this.#left(Math.min(patienceMs, REACH_MS)), listed);
    if (this.#reached) await this.#within(this.#left(patienceMs), listed);
    return this.known(client);
  }

  /** What has to be waited for is on this machine, or something answered at the server's address. */
  get #reached(): boolean {
    const { phases } = this.#parts;
    return phases === null || phases.reached;
  }

  /** A list does not wait for what has failed, nor for a start that was given this time already for any list. */
  #left(waitMs: number): number {
    const { context, supervisor } = this.#parts;
    const since = supervisor.startingSince;
    return supervisor.failing || since === null ? 0 : Math.max(0, since + waitMs - context.deps.clock.now());
  }

  async #within(waitMs: number, listed: Promise<unknown>): Promise<void> {
    if (waitMs > 0) await within(this.#parts.context.deps.clock, waitMs, listed, () => {});
  }

  /** The first listing for a client whose era has to be found out. Never rejects. */
  async #settled(client: ClientProfile, waitMs: number): Promise<ServerCatalog | null> {
    const { context, connections, catalogs, supervisor } = this.#parts;
    try {
      await supervisor.readyFor(client);
      await connections.settle(client);
    } catch (error) {
      context.logger.warn('list_failed', { error: error instanceof Error ? error.message : String(error) });
      return null;
    }
    return catalogs.get(this.#listedAs(client), this.#era(client), waitMs);
  }

  /** What the client's own process lists; null where it has none, or that lists what a fresh one does. */
  #own(client: ClientProfile): ServerCatalog | null {
    const { catalogs, connections } = this.#parts;
    const connection = catalogs.own.differ ? connections.ready(client) : null;
    return connection === null ? null : (catalogs.own.of(connection)?.catalog ?? null);
  }

  #listedAs(client: ClientProfile): ClientProfile {
    return this.#parts.connections.listedAs(client);
  }

  #era(client: ClientProfile): Era {
    return this.#parts.eras.servedIn(client) ?? ownEra(client);
  }
}
