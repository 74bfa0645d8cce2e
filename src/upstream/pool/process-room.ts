import { NoRoom } from '../../model/no-room.ts';
import type { Connection } from '../connection/connection.ts';
import type { ProcessQuota, Yielding } from './process-quota.ts';

export interface ProcessRoomDeps {
  readonly server: string;
  /** The node's limit of processes; null for servers that are none. */
  readonly quota: ProcessQuota | null;
  /** The server's own limit of processes. */
  readonly limit: () => number;
}

/**
 * The processes of one server, counted against its own limit and the node's from before they are started until nothing
 * is left of them.
 */
export class ProcessRoom {
  readonly #deps: ProcessRoomDeps;
  readonly #counted = new Set<Connection>();
  #opening = 0;

  constructor(deps: ProcessRoomDeps) {
    this.#deps = deps;
  }

  /** The server has as many as it may have, whatever the node has. */
  get serverFull(): boolean {
    return this.#deps.quota !== null && this.#counted.size + this.#opening >= this.#deps.limit();
  }

  get nodeFull(): boolean {
    return this.#deps.quota?.full === true;
  }

  get full(): boolean {
    return this.serverFull || this.nodeFull;
  }

  /** How many there are of the server, and how many there may be; null where it is no process of this machine. */
  get count(): { readonly running: number; readonly limit: number } | null {
    const { quota, limit } = this.#deps;
    return quota === null ? null : { running: this.#counted.size + this.#opening, limit: limit() };
  }

  /** REFUSED, with the limit that is in the way. */
  refusal(): NoRoom {
    const { server, limit, quota } = this.#deps;
    const text = this.serverFull
      ? `${server} runs ${limit()} processes, its limit (limits.maxProcesses), and all are in use; try again or raise it`
      : `this node runs ${quota?.max} server processes, its limit (maxProcesses), and all are in use; try again or raise it`;
    return new NoRoom(server, text);
  }

  /** A process is about to be started; `opened` or `failed` follows. */
  take(pool: Yielding): void {
    this.#deps.quota?.take(pool);
    this.#opening++;
  }

  opened(connection: Connection): void {
    this.#opening--;
    this.#counted.add(connection);
  }

  failed(): void {
    this.#opening--;
    this.#deps.quota?.release();
  }

  /** Nothing is left of it, or it is as good as gone. */
  gone(connection: Connection): void {
    if (this.#counted.delete(connection)) this.#deps.quota?.release();
  }
}
