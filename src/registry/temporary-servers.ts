import type { Clock } from '../model/clock.ts';
import type { Server } from '../model/server.ts';

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

/** Servers for a session or a while (check:A14), in memory only: the end of the process ends them. */
export class TemporaryServers {
  readonly #clock: Clock;
  readonly #onGone: (name: string) => void;
  readonly #servers = new Map<string, TemporaryServer & { readonly cancel: () => void }>();

  /** `onGone` hears of every server that ended by itself. */
  constructor(clock: Clock, onGone: (name: string) => void) {
    this.#clock = clock;
    this.#onGone = onGone;
  }

  get size(): number {
    return this.#servers.size;
  }

  get(name: string): TemporaryServer | undefined {
    return this.#servers.get(name);
  }

  values(): Iterable<TemporaryServer> {
    return this.#servers.values();
  }

  names(): Iterable<string> {
    return this.#servers.keys();
  }

  /** One of the same name is replaced; its time begins anew only where another lifetime is given. */
  set(name: string, server: Server, lifetime: Lifetime, suspended = false): void {
    this.#servers.get(name)?.cancel();
    const { expiresAt, sessionId } = lifetime;
    const cancel =
      expiresAt === null
        ? () => {}
        : this.#clock.after(Math.max(0, expiresAt - this.#clock.wall()), () => this.#end(name));
    this.#servers.set(name, { server, expiresAt, sessionId, suspended, cancel });
  }

  delete(name: string): boolean {
    this.#servers.get(name)?.cancel();
    return this.#servers.delete(name);
  }

  sessionEnded(sessionId: string): void {
    for (const [name, { sessionId: of }] of this.#servers) if (of === sessionId) this.#end(name);
  }

  close(): void {
    for (const { cancel } of this.#servers.values()) cancel();
    this.#servers.clear();
  }

  #end(name: string): void {
    if (this.delete(name)) this.#onGone(name);
  }
}
