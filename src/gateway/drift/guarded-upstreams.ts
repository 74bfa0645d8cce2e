import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import type { Server } from '../../model/server.ts';
import type { ListKind, ServerCatalog } from '../../model/server-catalog.ts';
import type { ServerState, ServerStatus } from '../../model/server-state.ts';
import type { KnownServers } from '../known-servers.ts';
import type { Drift } from './drift.ts';

/** What is known of servers, with their catalogues as they are offered (docs/drift.md); all else passes. */
export class GuardedUpstreams implements KnownServers {
  readonly #upstreams: KnownServers;
  readonly #drift: Drift;

  constructor(upstreams: KnownServers, drift: Drift) {
    this.#upstreams = upstreams;
    this.#drift = drift;
  }

  servers(): readonly Server[] {
    return this.#upstreams.servers();
  }

  notify(server: string, notification: Message, client: ClientProfile): void {
    this.#upstreams.notify(server, notification, client);
  }

  knownCatalog(server: string, client: ClientProfile, orOthers?: boolean): ServerCatalog | null {
    return this.#view(this.#upstreams.knownCatalog(server, client, orOthers));
  }

  async catalog(
    server: string,
    client: ClientProfile,
    waitMs: number,
    amongOthers?: boolean,
  ): Promise<ServerCatalog | null> {
    return this.#view(await this.#upstreams.catalog(server, client, waitMs, amongOthers));
  }

  sessionKey(server: string, client: ClientProfile): string | null {
    return this.#upstreams.sessionKey(server, client);
  }

  ownsConnection(server: string, client: ClientProfile): boolean {
    return this.#upstreams.ownsConnection(server, client);
  }

  ownsConnectionElsewhere(server: string, client: ClientProfile): Promise<boolean> {
    return this.#upstreams.ownsConnectionElsewhere?.(server, client) ?? Promise.resolve(false);
  }

  foundMeanwhile(server: string, exchange: Exchange, list: ListKind, name: string): Promise<boolean> {
    return this.#upstreams.foundMeanwhile?.(server, exchange, list, name) ?? Promise.resolve(false);
  }

  status(server: string): ServerStatus | null {
    return this.#upstreams.status(server);
  }

  state(server: string): ServerState | null {
    return this.#upstreams.state(server);
  }

  releaseSession(sessionId: string): void {
    this.#upstreams.releaseSession(sessionId);
  }

  #view(raw: ServerCatalog | null): ServerCatalog | null {
    return raw === null ? null : this.#drift.view(raw);
  }
}
