import type { Clock } from '../model/clock.ts';
import type { Server } from '../model/server.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Registry } from './registry.ts';

/** How long a temporary server is to be there; at least one of the two. */
export interface Lifetime {
  /** Wall-clock milliseconds; null where only its session ends it. */
  readonly expiresAt: number | null;
  readonly sessionId: string | null;
}

export interface TemporaryServer extends Lifetime {
  readonly server: Server;
  readonly suspended: boolean;
}

/** The temporary definition: visible to its session only, and not pinned unless it says so. */
export function asTemporary(server: Server, text: string, { sessionId }: Lifetime): Server {
  const asked = Object.hasOwn(JSON.parse(text) as object, 'drift');
  const drift = asked ? server.drift : ('off' as const);
  const passing = { ...server, temporary: true, ...(drift === undefined ? {} : { drift }) };
  return sessionId === null ? passing : { ...passing, isolation: server.isolation ?? 'session', onlyFor: sessionId };
}

interface TemporaryServersDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Has a layer with these servers. */
  readonly desired: Pick<Registry, 'refresh'>;
}

/** Servers for a session or a while (check:A14), in memory only: the end of the process ends them. */
export class TemporaryServers extends Map<string, TemporaryServer & { readonly cancel: () => void }> {
  readonly #deps: TemporaryServersDeps;

  constructor(deps: TemporaryServersDeps) {
    super();
    this.#deps = deps;
  }

  /** One of the same name is replaced; its time begins anew only where another lifetime is given. */
  put(name: string, server: Server, { expiresAt, sessionId }: Lifetime, suspended = false): void {
    this.get(name)?.cancel();
    const cancel =
      expiresAt === null
        ? () => {}
        : this.#deps.clock.after(Math.max(0, expiresAt - this.#deps.clock.wall()), () => this.#end(name));
    this.set(name, { server, expiresAt, sessionId, suspended, cancel });
  }

  override delete(name: string): boolean {
    this.get(name)?.cancel();
    return super.delete(name);
  }

  sessionEnded(sessionId: string): void {
    for (const [name, { sessionId: of }] of this) if (of === sessionId) this.#end(name);
  }

  close(): void {
    for (const { cancel } of this.values()) cancel();
    this.clear();
  }

  #end(name: string): void {
    if (!this.delete(name)) return;
    this.#deps.logger.info('temporary_server_ended', { server: name });
    this.#deps.desired.refresh();
  }
}
