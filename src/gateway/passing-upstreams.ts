import type { ClientProfile } from '../model/client-profile.ts';
import type { Exchange } from '../model/exchange.ts';
import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { Upstreams } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import type { ListKind, ServerCatalog } from '../model/server-catalog.ts';
import type { ServerStatus } from '../model/server-state.ts';

/**
 * The upstreams, as they are: what stands before them changes one thing and passes on the rest. In one place, so that an
 * argument that the port gets one day is not lost on the way.
 */
export class PassingUpstreams implements Upstreams {
  protected readonly upstreams: Upstreams;

  constructor(upstreams: Upstreams) {
    this.upstreams = upstreams;
  }

  servers(): readonly Server[] {
    return this.upstreams.servers();
  }

  call(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    return this.upstreams.call(server, request, exchange);
  }

  notify(server: string, notification: Message, client: ClientProfile): void {
    this.upstreams.notify(server, notification, client);
  }

  knownCatalog(server: string, client: ClientProfile, orOthers?: boolean): ServerCatalog | null {
    return this.upstreams.knownCatalog(server, client, orOthers);
  }

  catalog(server: string, client: ClientProfile, waitMs: number, amongOthers?: boolean): Promise<ServerCatalog | null> {
    return this.upstreams.catalog(server, client, waitMs, amongOthers);
  }

  sessionKey(server: string, client: ClientProfile): string | null {
    return this.upstreams.sessionKey(server, client);
  }

  ownsConnection(server: string, client: ClientProfile): boolean {
    return this.upstreams.ownsConnection(server, client);
  }

  ownsConnectionElsewhere(server: string, client: ClientProfile): Promise<boolean> {
    return this.upstreams.ownsConnectionElsewhere?.(server, client) ?? Promise.resolve(false);
  }

  foundMeanwhile(server: string, exchange: Exchange, list: ListKind, name: string): Promise<boolean> {
    return this.upstreams.foundMeanwhile?.(server, exchange, list, name) ?? Promise.resolve(false);
  }

  status(server: string): ServerStatus | null {
    return this.upstreams.status(server);
  }

  statuses(): readonly ServerStatus[] {
    return this.upstreams.statuses();
  }

  restart(server: string): Promise<void> {
    return this.upstreams.restart(server);
  }

  releaseSession(sessionId: string): void {
    this.upstreams.releaseSession(sessionId);
  }
}
