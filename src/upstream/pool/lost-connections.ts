import { OwnedElsewhere } from '../../model/gateway-error.ts';
import type { Attempt } from '../connection/attempt.ts';
import type { Connection } from '../connection/connection.ts';
import { asGatewayError, EraUnspoken } from '../connection/failures.ts';
import { sessionOf, type WantedConnection } from '../connection/session-key.ts';
import type { SessionPool } from './session-pool.ts';

/** Connections that a crash took, to be brought back by the next start of the server. */
export class LostConnections {
  readonly #server: string;
  readonly #local: boolean;
  readonly #pool: SessionPool;
  readonly #lost = new Map<string, WantedConnection>();

  /** `local`: the server lives and dies on this machine. */
  constructor(server: string, local: boolean, pool: SessionPool) {
    this.#server = server;
    this.#local = local;
    this.#pool = pool;
  }

  add(want: WantedConnection): void {
    this.#lost.set(want.key, want);
  }

  forget(sessionId: string): void {
    for (const [key, want] of this.#lost) if (sessionOf(want.tenancy) === sessionId) this.#lost.delete(key);
  }

  /** Another node has them by now, or is to. */
  surrender(keys: (key: string) => boolean): void {
    for (const key of this.#lost.keys()) if (keys(key)) this.#lost.delete(key);
  }

  clear(): void {
    this.#lost.clear();
  }

  /**
   * Opens them again, as parts of this attempt; resolves with the first that is open, null for none. Processes hold
   * state and start at once; HTTP sessions wait for the next call of their client. Rejects where none can be opened.
   */
  async bringBack(attempt: Attempt): Promise<Connection | null> {
    const wanted = [...this.#lost.values()].filter(({ tenancy }) => this.#local || tenancy.kind === 'shared');
    this.#lost.clear();
    try {
      return await Promise.any(wanted.map(async (want) => (await this.#reopen(want, attempt)) ?? Promise.reject(null)));
    } catch (error) {
      const failed = (error as AggregateError).errors.find((cause) => cause !== null);
      if (failed !== undefined) throw failed;
      return null;
    }
  }

  async #reopen(want: WantedConnection, attempt: Attempt): Promise<Connection | null> {
    try {
      return await this.#pool.acquire(want, attempt);
    } catch (cause) {
      const error = asGatewayError(cause, this.#server);
      if (error.code === 'OVERLOADED' || error.code === 'CANCELLED') return null;
      if (error instanceof EraUnspoken || error instanceof OwnedElsewhere) return null;
      this.#lost.set(want.key, want);
      throw error;
    }
  }
}
