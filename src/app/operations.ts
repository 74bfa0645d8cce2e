import type { Clock } from '../model/clock.ts';
import { type Endpoint, type Exchange, publicReplyOf } from '../model/exchange.ts';
import type { Operation, Tracker } from '../model/operation.ts';
import type { Outcome } from '../model/outcome.ts';
import { DOWN, type ServerStatus, UP } from '../model/server-state.ts';
import { isClientRequest } from '../protocol/methods.ts';
import type { Logger } from '../telemetry/logger.ts';
import { outsideServers } from '../upstream/error-boundary.ts';
import { ServerError } from './embedding/server-error.ts';

type Worker = 'start' | 'stop';

/** Reports the operations of a node to its tracker. Errors of the tracker are logged and have no other effect. */
export class Operations {
  readonly clock: Clock;
  readonly #tracker: Tracker;
  readonly #logger: Logger;
  /** When the starts and stops in progress began, by server. */
  readonly #startTimes: Record<Worker, Map<string, number>> = { start: new Map(), stop: new Map() };

  constructor(tracker: Tracker, clock: Clock, logger: Logger) {
    this.#tracker = tracker;
    this.clock = clock;
    this.#logger = logger;
  }

  /** `since`: a time of `clock`. */
  report(operation: Omit<Operation, 'durationMs'>, since: number): void {
    const finished = { ...operation, durationMs: this.clock.now() - since };
    const failed = (error: unknown): void => this.#logger.error('tracker_failed', { operation: finished.name, error });
    // An `async` tracker rejects instead of throwing.
    outsideServers(() => (async () => this.#tracker(finished))()).catch(failed);
  }

  /** Reports a request of a client or of the program. `PublicSubjects` reports those on public subjects. */
  request(exchange: Exchange, { server, path }: Endpoint, outcome: Outcome, since: number): void {
    if (publicReplyOf(exchange) !== null) return;
    const { method, era } = exchange.request;
    const error = errorOf(outcome);
    const name = isClientRequest(method, era) ? method : 'other';
    this.report({ name, subject: path, ...(server === '' ? {} : { server }), error }, since);
  }

  /** The status of a server of this node changed. */
  statusChanged(server: string, { state, reason }: ServerStatus): void {
    if (state === 'stopping') this.#done('start', server, new Error('it was stopped during its start'));
    if (state === 'starting' || state === 'stopping') {
      const startTimes = this.#startTimes[state === 'starting' ? 'start' : 'stop'];
      // The same state is reported again when a counter changes.
      if (!startTimes.has(server)) startTimes.set(server, this.clock.now());
    } else if (UP.has(state)) this.#done('start', server, null);
    else if (DOWN.has(state)) this.#done('start', server, new Error(reason ?? state));
    else if (state !== 'degraded') this.#done('stop', server, null);
  }

  #done(name: Worker, server: string, error: Error | null): void {
    const since = this.#startTimes[name].get(server);
    if (since === undefined) return;
    this.#startTimes[name].delete(server);
    this.report({ name, subject: server, server, error }, since);
  }
}

function errorOf(outcome: Outcome): Error | null {
  if (outcome.kind === 'failure') return outcome.error;
  if (outcome.message.kind !== 'error') return null;
  try {
    return new ServerError(outcome.message.body.toString());
  } catch {
    return new Error('the server answered with an error that is no JSON');
  }
}
