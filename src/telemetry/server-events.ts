import type { ServerNews } from '../model/ports.ts';
import type { InvalidItem } from '../model/server-catalog.ts';
import type { RecoveryStep, StateChange } from '../model/server-state.ts';
import { Journal } from './journal.ts';

const LIMITS = { maxEntries: 500, maxBytes: 256 * 1024, maxTotalBytes: 8 * 1024 * 1024 };

type Observer = Pick<ServerNews, 'recovery' | 'listItemInvalid'>;

/** What became of servers, one line of JSON for each step, in order. Reasons come redacted. */
export class ServerEvents implements ServerNews {
  readonly journal: Journal;
  readonly #wall: () => number;
  readonly #observer: Observer | undefined;

  constructor(run: string, wall: () => number, observer?: Observer) {
    this.#observer = observer;
    this.journal = new Journal(run, LIMITS);
    this.#wall = wall;
  }

  added(server: string): void {
    this.#push(server, 'added', {});
  }

  moved(server: string, { from, to, reason, failure, challenge, at }: StateChange): void {
    this.#push(server, 'state', { from, to, reason, failure, challenge }, at);
  }

  healthTurned(server: string, reason: string | null): void {
    this.#push(server, 'health', { health: reason === null ? 'healthy' : 'unhealthy', reason });
  }

  replaced(server: string): void {
    this.#push(server, 'replaced', {});
  }

  recovery(server: string, step: RecoveryStep, reason: string | null): void {
    this.#push(server, 'recovery', { step, reason });
    this.#observer?.recovery(server, step, reason);
  }

  listItemInvalid(server: string, invalid: InvalidItem): void {
    this.#push(server, 'list_item_invalid', { ...invalid });
    this.#observer?.listItemInvalid(server, invalid);
  }

  removed(server: string): void {
    this.#push(server, 'removed', {});
  }

  #push(server: string, type: string, fields: Record<string, unknown>, at: number = this.#wall()): void {
    this.journal.push(server, JSON.stringify({ time: new Date(at).toISOString(), type, server, ...fields }));
  }
}
