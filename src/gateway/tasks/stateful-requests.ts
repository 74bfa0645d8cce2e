import type { Clock } from '../../model/clock.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { isTerminal } from '../../model/task-status.ts';
import { result } from '../../protocol/compose.ts';
import { type NamedParam, withParam } from '../params.ts';
import { finalOutcome, isSettled, statefulView, withMeta } from './task-answers.ts';
import type { TaskCalls } from './task-calls.ts';
import type { TaskNames } from './task-names.ts';
import { endedBy, heardTask } from './task-news.ts';
import { cancelled, type TaskPolling } from './task-polling.ts';
import type { TaskTable } from './task-table.ts';

/** A client that still wants its answer after so long asks again; a task without an end is not waited for without one. */
const MAX_WAIT_MS = 24 * 60 * 60_000;

export interface StatefulRequestsDeps {
  readonly clock: Clock;
  readonly table: TaskTable;
  readonly names: TaskNames;
  readonly calls: TaskCalls;
  readonly polling: TaskPolling;
}

/** One request about a task that was found. */
export interface TaskRequest {
  readonly record: TaskRecord;
  readonly exchange: Exchange;
  readonly endpoint: Endpoint;
  readonly taskId: NamedParam;
}

/**
 * `tasks/get`, `tasks/result` and `tasks/cancel` of 2025-11-25. What a server of the same era says is passed on; a
 * stateless server is asked in its own words; and what is settled is answered from the table.
 */
export class StatefulRequests {
  readonly #deps: StatefulRequestsDeps;

  constructor(deps: StatefulRequestsDeps) {
    this.#deps = deps;
  }

  run(asked: TaskRequest): Promise<Outcome> {
    switch (asked.exchange.request.method) {
      case 'tasks/get':
        return this.#get(asked);
      case 'tasks/result':
        return this.#result(asked);
      case 'tasks/cancel':
        return this.#cancel(asked);
      default: {
        const { method } = asked.exchange.request;
        return Promise.resolve(failure(new GatewayError('METHOD_NOT_FOUND', `Method not found: ${method}`)));
      }
    }
  }

  async #get(asked: TaskRequest): Promise<Outcome> {
    const { record, exchange, taskId } = asked;
    if (isSettled(record)) return this.#view(asked, record);
    if (record.era === 'stateful') return this.#relay(asked);
    const outcome = await this.#deps.polling.poll(record, exchange);
    const heard = outcome.kind === 'answer' ? heardTask(outcome.message) : null;
    if (outcome.kind === 'failure' || heard === null) return outcome;
    const view = statefulView(this.#deps.table.update(record, heard.news), taskId.value);
    return answer(result('0', withMeta(view, outcome.message), 'stateful'));
  }

  /** Blocks till the task has ended, up to a day, however long a single request to the server may take. */
  async #result(asked: TaskRequest): Promise<Outcome> {
    const { exchange, taskId } = asked;
    const { clock, table, polling } = this.#deps;
    const until = clock.now() + MAX_WAIT_MS;
    let { record } = asked;
    if (record.era === 'stateless' && !isSettled(record)) {
      return polling.wait({ record, exchange, related: taskId.value, until });
    }
    for (;;) {
      if (isSettled(record)) return finalOutcome(record, taskId.value);
      const outcome = await this.#relay({ ...asked, record });
      const overdue = outcome.kind === 'failure' && outcome.error.code === 'TIMEOUT';
      if (!overdue || clock.now() >= until) return outcome;
      if (exchange.cancelled !== null) return cancelled(record, exchange.cancelled);
      const now = table.get(record.key);
      if (now === null) return outcome;
      record = now;
    }
  }

  async #cancel(asked: TaskRequest): Promise<Outcome> {
    const { record, exchange } = asked;
    if (isTerminal(record.status)) return alreadyEnded(record);
    if (record.era === 'stateful') return this.#relay(asked);
    const { table, polling, calls } = this.#deps;
    // The extension's server acknowledges whatever it is asked: whether there is still something to cancel is asked before.
    const outcome = await polling.poll(record, exchange);
    const heard = outcome.kind === 'answer' ? heardTask(outcome.message) : null;
    if (outcome.kind === 'failure' || heard === null) return outcome;
    const now = table.update(record, heard.news);
    if (isTerminal(now.status)) return alreadyEnded(now);
    const acknowledged = await calls.own(record, exchange.client.principal, 'tasks/cancel');
    if (acknowledged.kind === 'failure' || acknowledged.message.kind === 'error') return acknowledged;
    // From here on it is cancelled for its client, whatever its server still makes of it (§Task Cancellation).
    return this.#view(asked, table.update(now, { status: 'cancelled' }));
  }

  async #relay({ record, exchange, endpoint, taskId }: TaskRequest): Promise<Outcome> {
    const { table, names, calls } = this.#deps;
    const { request, client } = exchange;
    const { server } = record;
    const mappings = names.mappings(server, client.principal, endpoint);
    const outcome = await calls.relay(record, exchange, withParam(request, taskId, record.taskId), mappings);
    if (outcome.kind === 'failure') return outcome;
    const { message } = outcome;
    if (request.method !== 'tasks/result') {
      const heard = heardTask(message);
      if (heard !== null) table.update(record, heard.news);
    } else {
      const now = table.get(record.key) ?? record;
      if (message.kind === 'result' || isTerminal(now.status)) table.update(now, endedBy(now, message));
    }
    return answer(names.outward(message, server, client.principal, endpoint));
  }

  #view({ taskId }: TaskRequest, record: TaskRecord): Promise<Outcome> {
    return Promise.resolve(answer(result('0', statefulView(record, taskId.value), 'stateful')));
  }
}

function alreadyEnded({ status }: TaskRecord): Outcome {
  return failure(new GatewayError('INVALID_PARAMS', `Cannot cancel task: already in terminal status '${status}'`));
}
