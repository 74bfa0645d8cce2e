import type { Clock } from '../model/clock.ts';
import type { Server } from '../model/server.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Registry } from './registry.ts';
import { type StoredDefinitions, type SubmittedDefinition, serverOf } from './stored-definitions.ts';

/** What ends a temporary server: a time, a session, or both. */
export interface Lifetime {
  /** Wall-clock milliseconds; null if only the session ends it. */
  readonly expiresAt: number | null;
  readonly sessionId: string | null;
}

export interface TemporaryEntry extends Lifetime {
  readonly server: Server;
  /** The definition as written: its secrets may change. */
  readonly definition: SubmittedDefinition;
  readonly suspended: boolean;
  /** Cancels the timer of `expiresAt`. */
  readonly cancel: () => void;
}

/** The temporary definition: visible only to its session, and not pinned unless the definition says so. */
export function asTemporary(server: Server, text: string, { sessionId }: Lifetime): Server {
  const asked = Object.hasOwn(JSON.parse(text) as object, 'drift');
  const drift = asked ? server.drift : ('off' as const);
  const passing = { ...server, temporary: true, ...(drift === undefined ? {} : { drift }) };
  return sessionId === null ? passing : { ...passing, isolation: server.isolation ?? 'session', onlyFor: sessionId };
}

interface TemporaryServersDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Contains these servers as a layer. */
  readonly desired: Pick<Registry, 'refresh'>;
}

/** Servers that last for a session or a time (check:A14), only in memory: the end of the process removes them. */
export class TemporaryServers extends Map<string, TemporaryEntry> {
  readonly #deps: TemporaryServersDeps;

  constructor(deps: TemporaryServersDeps) {
    super();
    this.#deps = deps;
  }

  /** Replaces a server of the same name and keeps its suspension; its remaining time changes only with another `expiresAt`. */
  put(server: Server, definition: SubmittedDefinition, { expiresAt, sessionId }: Lifetime): void {
    const { name } = server;
    const before = this.get(name);
    before?.cancel();
    const cancel =
      expiresAt === null
        ? () => {}
        : this.#deps.clock.after(Math.max(0, expiresAt - this.#deps.clock.wall()), () => this.#end(name));
    this.set(name, { server, definition, expiresAt, sessionId, suspended: before?.suspended ?? false, cancel });
  }

  /** Reads the definitions with secrets again. Returns whether any server has changed. */
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
