import type { ClientProfile } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { Upstreams } from '../../model/ports.ts';
import type { Server } from '../../model/server.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import type { Guards } from './guards.ts';

/** The upstreams, with the catalogues of their servers as they are offered (docs/drift.md). */
export class GuardedUpstreams implements Upstreams {
  readonly #upstreams: Upstreams;
  readonly #guards: Guards;

  constructor(upstreams: Upstreams, guards: Guards) {
    this.#upstreams = upstreams;
    this.#guards = guards;
  }

  knownCatalog(server: string, client: ClientProfile): ServerCatalog | null {
    const raw = this.#upstreams.knownCatalog(server, client);
    return raw === null ? null : this.#guards.view(raw);
  }

  async catalog(server: string, client: ClientProfile, waitMs: number): Promise<ServerCatalog | null> {
    const raw = await this.#upstreams.catalog(server, client, waitMs);
    return raw === null ? null : this.#guards.view(raw);
  }

  call(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    return this.#upstreams.call(server, request, exchange);
  }

  servers(): readonly Server[] {
    return this.#upstreams.servers();
  }

  notify(server: string, notification: Message, client: ClientProfile): void {
    this.#upstreams.notify(server, notification, client);
  }

  connectionKey(server: string, client: ClientProfile): string | null {
    return this.#upstreams.connectionKey(server, client);
  }

  ownsConnection(server: string, client: ClientProfile): boolean {
    return this.#upstreams.ownsConnection(server, client);
  }

  status(server: string): ServerStatus | null {
    return this.#upstreams.status(server);
  }

  statuses(): readonly ServerStatus[] {
    return this.#upstreams.statuses();
  }

  restart(server: string): Promise<void> {
    return this.#upstreams.restart(server);
  }

  releaseSession(sessionId: string): void {
    this.#upstreams.releaseSession(sessionId);
  }
}
