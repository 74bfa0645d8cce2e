import type { Clock } from '../../model/clock.ts';
import type { Server } from '../../model/server.ts';
import { DOWN, type LaunchFailure } from '../../model/server-state.ts';
import { sweptDefinition } from '../../model/swept-definition.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Connection } from '../connection/connection.ts';
import { likelyCause } from '../health/likely-cause.ts';
import { missingVariables } from '../process/launch-command.ts';
import type { Transition } from './state-machine.ts';

/** What of the gateway's own surroundings a start depends on. */
export interface LaunchSurroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly inContainer: boolean;
}

export interface LaunchReportsDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly surroundings: LaunchSurroundings;
  readonly times: { readonly startupMs: number };
  readonly server: () => Server;
}

/** What was left of the connections of one start; it may come after the start has failed. */
interface Remains {
  exit: LaunchFailure['exit'];
  stderrTail: string;
}

/** What can be said of one server's last start that failed (S1.19): in the log once, in the status till one succeeds. */
export class LaunchReports {
  readonly #deps: LaunchReportsDeps;
  #startedAt = 0;
  /** Of the start under way, or of the last one. */
  #remains: Remains = { exit: null, stderrTail: '' };
  #last: { readonly failure: Omit<LaunchFailure, keyof Remains>; readonly remains: Remains } | null = null;

  constructor(deps: LaunchReportsDeps) {
    this.#deps = deps;
  }

  /** null when the last start succeeded, or none has ended. */
  get lastFailure(): LaunchFailure | null {
    if (this.#last === null) return null;
    return { ...this.#last.failure, ...this.#last.remains };
  }

  starting(): void {
    this.#startedAt = this.#deps.clock.now();
    this.#remains = { exit: null, stderrTail: '' };
  }

  ended({ ended, transport }: Connection): void {
    this.#remains.stderrTail = transport.stderrTail();
    if (ended?.kind === 'exited') this.#remains.exit = { code: ended.code, signal: ended.signal };
  }

  moved({ from, to, reason, failure, error, at }: Transition): void {
    if (from !== 'starting') return;
    this.#last = null;
    if (!DOWN.has(to)) return;
    const { clock, logger, surroundings, times, server } = this.#deps;
    const { transport } = server();
    const { environment, inContainer } = surroundings;
    const local = transport.type === 'stdio' ? transport : null;
    const swept = sweptDefinition(transport);
    const missing = local === null ? [] : missingVariables(local, environment);
    const found = {
      transport,
      failure,
      error,
      missing,
      inContainer,
      exit: this.#remains.exit,
      timedOut: clock.now() - this.#startedAt >= times.startupMs,
    };
    const told = {
      at,
      error: logger.redact(reason ?? ''),
      likelyCause: likelyCause(found),
      command: swept.command === null ? null : logger.redact(swept.command),
      arguments: swept.args.map((arg) => logger.redact(arg)),
      environment: Object.keys(swept.env).sort(),
      missingVariables: missing,
      inContainer,
    };
    this.#last = { failure: told, remains: this.#remains };
    logger.warn('server_start_failed', { ...this.lastFailure });
  }
}
