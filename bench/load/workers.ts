import type { Client } from './client.ts';
import type { HttpSocket } from './http-socket.ts';
import type { Job } from './job.ts';
import type { Meter } from './meter.ts';

/** The run ends when this many answers were wrong: its row is void anyway. */
const MAX_WRONG = 10;

/** Does one operation after another on one connection, with the given clients in turn, until `stop`; `run` starts it again. */
export class Worker {
  readonly socket: HttpSocket;
  readonly #job: Job;
  readonly #clients: readonly Client[];
  readonly #meter: Meter;
  #turn = 0;
  #stopped: (() => void) | null = null;

  constructor(job: Job, clients: readonly Client[], socket: HttpSocket, meter: Meter) {
    this.#job = job;
    this.#clients = clients;
    this.socket = socket;
    this.#meter = meter;
  }

  run(): void {
    this.#stopped = null;
    this.#next();
  }

  #next(): void {
    const client = this.#clients[this.#turn++ % this.#clients.length]!;
    const begunAt = performance.now();
    const done = (problem: string | null) => {
      this.#meter.count(begunAt, problem);
      if (this.#stopped !== null || this.#meter.wrong >= MAX_WRONG) this.#stopped?.();
      else this.#next();
    };
    if (this.#job.kind === 'list') client.list(this.socket, done);
    else client.call(this.socket, done);
  }

  /** Resolves when the operation under way has ended. */
  stop(): Promise<void> {
    const ended = this.#meter.wrong >= MAX_WRONG;
    return ended ? Promise.resolve() : new Promise((resolve) => (this.#stopped = resolve));
  }
}
