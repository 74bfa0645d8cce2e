import { setTimeout as sleep } from 'node:timers/promises';
import type { ClusterWorld } from '../../chaos/cluster-world.ts';
import type { Attempt } from '../ledger/history.ts';
import type { LedgerClient } from '../ledger/ledger-client.ts';

/** Duration of the slow half of the calls, so that many calls are in flight at any time. */
const SLOW_MS = 400;
/**
 * Pause between two calls of a client: 64 clients make some two hundred calls a second, as many as G8 asks for, and leave
 * two cores to the cluster. A client that waits to be served again makes no pause.
 */
const PAUSE_MS = 100;
/** Pause of a client after a call without a result. */
const REST_MS = 20;

/** One client of one server, which calls all the time and records when it is served again. */
export class Caller {
  readonly server: string;
  readonly client: LedgerClient;
  /** The first result of a call that was begun after `since`; null until then. */
  usableAt: number | null = null;
  /** The name of that call. */
  usableBy = '';
  /** Whether a call ended without a result since then, before the first result. */
  troubled = false;
  /** From then on the client makes only quick calls, until the first result. */
  #since = Number.POSITIVE_INFINITY;
  #running = true;
  #loop: Promise<void> = Promise.resolve();

  constructor(client: LedgerClient, server: string) {
    this.client = client;
    this.server = server;
  }

  begin(): void {
    this.#loop = this.#live();
  }

  /** Records when this client is served by a call that began after `since`. */
  watch(since: number): void {
    this.#since = since;
    this.usableAt = null;
    this.troubled = false;
  }

  async end(): Promise<void> {
    this.#running = false;
    await this.#loop;
  }

  call(tool: string, args: Record<string, unknown> = {}): Promise<Attempt> {
    return this.client.call(`${this.server}__${tool}`, args);
  }

  async #live(): Promise<void> {
    for (let n = 0; this.#running; n++) {
      const quick = n % 2 === 0 || (this.#since <= performance.now() && this.usableAt === null);
      const { call, ending, startedAt, endedAt } = await (quick
        ? this.call('unsafe')
        : this.call('slow', { ms: SLOW_MS }));
      if (ending !== 'RESULT') {
        if (endedAt! >= this.#since && this.usableAt === null) this.troubled = true;
        await sleep(REST_MS);
      } else if (startedAt >= this.#since && this.usableAt === null) {
        this.usableAt = endedAt;
        this.usableBy = call;
      } else if (this.usableAt !== null || performance.now() < this.#since) await sleep(PAUSE_MS);
    }
  }
}

/** Servers of the clients: of every four one has processes of its own, one shares the singleton, two need no lease. */
const SERVERS = ['own', 'single', 'shared', 'modern', 'old', 'single', 'shared', 'old'] as const;

/** Opens them one after the other, each with a first call. */
export async function openCallers(world: ClusterWorld, count: number): Promise<Caller[]> {
  const callers: Caller[] = [];
  for (let i = 0; i < count; i++) {
    const server = SERVERS[i % SERVERS.length]!;
    const client = world.client(`k${i}`, server === 'modern' ? 'stateless' : 'stateful');
    await client.open();
    const caller = new Caller(client, server);
    const { ending, reason } = await caller.call('unsafe');
    if (ending !== 'RESULT') throw new Error(`${server} does not answer: ${ending} ${reason}`);
    callers.push(caller);
  }
  return callers;
}
