import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import { GatewayError } from '../model/gateway-error.ts';
import type { Logger } from '../telemetry/logger.ts';
import { Defect } from './health/failure-class.ts';
import type { Supervisor } from './supervision/supervisor.ts';

/**
 * The server that the running code works for. Node carries it on to every callback that such code sets up: timers,
 * sockets, child processes, look-ups, promises. There is one for the process, as there is one place where an exception
 * of a callback arrives.
 */
const atWork = new AsyncLocalStorage<ErrorBoundary>();
let holders = 0;

/**
 * The edge of one server. All work for the server begins here, so that an exception which nothing expected, in this work
 * or in any callback that it leads to, makes that server `defect` and ends neither the process nor another server.
 */
export class ErrorBoundary {
  readonly #server: string;
  readonly #logger: Logger;
  readonly #supervisor: Supervisor;
  /** The context of this server's work. Entering it costs a third of `AsyncLocalStorage.snapshot` and less than `atWork.run`. */
  readonly #context: AsyncResource;

  constructor(server: string, logger: Logger, supervisor: Supervisor) {
    this.#server = server;
    this.#logger = logger;
    this.#supervisor = supervisor;
    this.#context = atWork.run(this, () => new AsyncResource('trunkline.server'));
  }

  /** What the work gives, or `instead` where it throws what nothing expected. */
  run<T>(work: () => T, instead: (error: GatewayError) => T): T {
    try {
      return this.#context.runInAsyncScope(work);
    } catch (error) {
      if (error instanceof GatewayError) throw error;
      return instead(this.failed(error));
    }
  }

  /** As `run`, for work that goes on. */
  async later<T>(work: () => Promise<T>, instead: (error: GatewayError) => T): Promise<T> {
    try {
      return await this.#context.runInAsyncScope(work);
    } catch (error) {
      if (error instanceof GatewayError) throw error;
      return instead(this.failed(error));
    }
  }

  /** Something threw what nothing expected: the server is out of service until it is restarted. */
  failed(error: unknown): GatewayError {
    const message = error instanceof Error ? error.message : String(error);
    const defect = new Defect(this.#server, this.#logger.redact(message), error);
    try {
      // One that is at rest stays so, and one that is `defect` already may throw the same again while it closes.
      if (!this.#supervisor.defect(defect)) this.#logger.warn('server_defect_again', { error: message });
    } catch (cause) {
      this.#logger.error('server_halt_failed', { error: message, cause: String(cause) });
    }
    return defect;
  }
}

/** Whether the running code works for a server: then an exception of it is handled already. */
export function worksForServer(): boolean {
  return atWork.getStore() !== undefined;
}

/** Runs what belongs to no server, though a server is the occasion: code of the program around the gateway. */
export function outsideServers<T>(work: () => T): T {
  return atWork.exit(work);
}

/**
 * From now on an uncaught exception of work for a server goes to that server. Any other one does what it did before:
 * it reaches the listeners that the program has, or ends the process. Returns how to end that again.
 */
export function catchDefects(): () => void {
  if (holders++ === 0) process.on('uncaughtException', onUncaught);
  let held = true;
  return () => {
    if (held && --holders === 0) process.off('uncaughtException', onUncaught);
    held = false;
  };
}

function onUncaught(error: unknown): void {
  const boundary = atWork.getStore();
  if (boundary !== undefined) boundary.failed(error);
  else if (process.listenerCount('uncaughtException') === 1) {
    // Nothing else would handle it: without this listener Node prints it and ends the process.
    process.off('uncaughtException', onUncaught);
    process.nextTick(() => {
      throw error;
    });
  }
}
