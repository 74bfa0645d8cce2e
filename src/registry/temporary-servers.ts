import type { Clock } from '../model/clock.ts';
import type { Server } from '../model/server.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Registry } from './registry.ts';
import { type StoredDefinitions, serverOf, type WrittenText } from './stored-definitions.ts';

/** How long a temporary server is to be there; at least one of the two. */
export interface Lifetime {
  /** Wall-clock milliseconds; null where only its session ends it. */
  readonly expiresAt: number | null;
  readonly sessionId: string | null;
}

export interface KeptTemporary extends Lifetime {
  readonly server: Server;
  /** As it was written: its secrets may change. */
  readonly definition: WrittenText;
  readonly suspended: boolean;
  /** Ends its time. */
  readonly cancel: () => void;
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
export class TemporaryServers extends Map<string, KeptTemporary> {
  readonly #deps: TemporaryServersDeps;

  constructor(deps: TemporaryServersDeps) {
    super();
    this.#deps = deps;
  }

  /** One of the same name is replaced, and goes on being suspended; its time begins anew only where another lifetime is given. */
  put(server: Server, definition: WrittenText, { expiresAt, sessionId }: Lifetime): void {
    const { name } = server;
    const before = this.get(name);
    before?.cancel();
    const cancel =
      expiresAt === null
        ? () => {}
        : this.#deps.clock.after(Math.max(0, expiresAt - this.#deps.clock.wall()), () => this.#end(name));
    this.set(name, { server, definition, expiresAt, sessionId, suspended: before?.suspended ?? false, cancel });
  }

  /** Reads those anew that have secrets. True where another server came of it. */
  async follow(definitions: StoredDefinitions): Promise<boolean> {
    let changed = false;
    for (const [name, { definition }] of [...this]) {
      if (!definition.text.includes('${secret:')) continue;
      const read = serverOf(name, definition.text, await definitions.read(definition, name));
      const now = this.get(name);
      if (now === undefined || now.definition !== definition) continue;
      const server = asTemporary(read, definition.text, now);
      if (server.connectionDigest === now.server.connectionDigest) continue;
      this.set(name, { ...now, server });
      changed = true;
    }
    return changed;
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
