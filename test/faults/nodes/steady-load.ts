import { setTimeout as sleep } from 'node:timers/promises';
import type { Attempt } from '../ledger/history.ts';
import type { LedgerClient } from '../ledger/ledger-client.ts';

export interface CallKind {
  readonly tool: string;
  readonly args?: Record<string, unknown>;
}

export interface SteadyLoadOptions {
  readonly clients: readonly LedgerClient[];
  /** Calls per second of all clients together; fewer where the answers take longer than that. */
  readonly perSecond: number;
  /** What this client calls next. */
  readonly next: (client: LedgerClient, n: number) => CallKind;
  /** Called when an attempt has ended. Resolves with whether the same call is to be tried again. */
  readonly ended?: (attempt: Attempt, client: LedgerClient) => Promise<boolean> | boolean;
}

/** A client whose call took longer catches up by at most this, so that the pace holds over calls that are slow now and then. */
const CATCH_UP_MS = 1_000;

/** Makes a fixed number of calls a second, one at a time for each client, until it is stopped. */
export class SteadyLoad {
  /** Calls that have ended. */
  calls = 0;
  readonly #options: SteadyLoadOptions;
  readonly #everyMs: number;
  #running = false;
  #loops: Promise<void>[] = [];

  constructor(options: SteadyLoadOptions) {
    this.#options = options;
    this.#everyMs = (1000 * options.clients.length) / options.perSecond;
  }

  start(): void {
    this.#running = true;
    this.#loops = this.#options.clients.map((client, i) => this.#live(client, i));
  }

  /** Resolves when the last call has ended. */
  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#loops);
  }

  async #live(client: LedgerClient, place: number): Promise<void> {
    const { next, ended, clients } = this.#options;
    let due = performance.now() + (this.#everyMs * place) / clients.length;
    for (let n = 0; this.#running; n++) {
      due = Math.max(due, performance.now() - CATCH_UP_MS) + this.#everyMs;
      await sleep(Math.max(0, due - performance.now()));
      const { tool, args } = next(client, n);
      const call = `${client.name}.${n}`;
      for (;;) {
        const attempt = await client.call(tool, args, { call });
        if ((await ended?.(attempt, client)) !== true) break;
      }
      this.calls++;
    }
  }
}
