import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import { GatewayError } from '../model/gateway-error.ts';
import { messageOf } from '../model/thrown.ts';
import type { Logger } from '../telemetry/logger.ts';
import { Defect } from './health/failure-class.ts';
import type { Supervisor } from './supervision/supervisor.ts';

/**
 * The error boundary of the running code. Node propagates it to every callback that the code sets up: timers, sockets, child
 * processes, DNS look-ups, promises. It is one per process because uncaught exceptions arrive at one place per process.
 */
const currentBoundary = new AsyncLocalStorage<ErrorBoundary>();
let holders = 0;

/**
 * The error boundary of one server. All work for the server starts here, so that an unexpected exception, in this work or in
 * any callback that it leads to, sets that server to `defect` and ends neither the process nor another server.
 */
export class ErrorBoundary {
  readonly #server: string;
  readonly #logger: Logger;
  readonly #supervisor: Supervisor;
  /** The async context of this server. Entering it costs a third of `AsyncLocalStorage.snapshot` and less than `currentBoundary.run`. */
  readonly #context: AsyncResource;

  constructor(server: string, logger: Logger, supervisor: Supervisor) {
    this.#server = server;
    this.#logger = logger;
    this.#supervisor = supervisor;
    this.#context = currentBoundary.run(this, () => new AsyncResource('trunkline.server'));
  }

  /** Runs the work; on an unexpected exception returns the result of `instead`. A GatewayError is rethrown. */
  run<T>(work: () => T, instead: (error: GatewayError) => T): T {
    try {
      return this.#context.runInAsyncScope(work);
    } catch (error) {
      if (error instanceof GatewayError) throw error;
      return instead(this.failed(error));
    }
  }

  /** As `run`, for asynchronous work. */
  async later<T>(work: () => Promise<T>, instead: (error: GatewayError) => T): Promise<T> {
    try {
      return await this.#context.runInAsyncScope(work);
    } catch (error) {
      if (error instanceof GatewayError) throw error;
      return instead(this.failed(error));
    }
  }

  /** An unexpected exception: the server is out of service until it is restarted. */
  failed(error: unknown): GatewayError {
    const message = messageOf(error);
    const defect = new Defect(this.#server, this.#logger.redact(message), error);
    try {
      // A suspended, misconfigured or stopping server keeps its state; one that is `defect` already may throw again while it
      // closes.
      if (!this.#supervisor.defect(defect)) this.#logger.warn('server_defect_again', { error: message });
    } catch (cause) {
      this.#logger.error('server_halt_failed', { error: message, cause: String(cause) });
    }
    return defect;
  }
}

/** Whether the running code belongs to a server: its exceptions are then handled by that server's boundary. */
export function inServerContext(): boolean {
  return currentBoundary.getStore() !== undefined;
}

/** Runs code of the embedding program outside any error boundary, even when work for a server triggered it. */
export function outsideServers<T>(work: () => T): T {
  return currentBoundary.exit(work);
}

/**
 * From now on an uncaught exception in work for a server goes to that server's boundary. Any other uncaught exception reaches
 * the program's own listeners, or ends the process as before. The returned function undoes this.
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
  const boundary = currentBoundary.getStore();
  if (boundary !== undefined) boundary.failed(error);
  else if (process.listenerCount('uncaughtException') === 1) {
    // No other listener handles it: without this one Node prints the error and ends the process.
    process.off('uncaughtException', onUncaught);
    process.nextTick(() => {
      throw error;
    });
  }
}
