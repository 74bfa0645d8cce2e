import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { isTerminal } from '../../model/task-status.ts';
import { bodyField } from '../../protocol/body.ts';
import { result } from '../../protocol/compose.ts';
import { isObject } from '../../protocol/fields.ts';
import { refusedInput } from '../../protocol/stateless/input-required.ts';
import { ownAnswer } from '../own-results.ts';
import { type NamedParam, withParam } from '../params.ts';
import type { TaskParts } from './task-creation.ts';
import {
  awaitsStream,
  endedBy,
  finalOutcome,
  isSettled,
  parseTaskReport,
  statefulView,
  statelessView,
  taskReportIn,
  withMeta,
} from './task-views.ts';
import { cancelled } from './task-waits.ts';

/** The longest wait of one request, also for a task without an end; a client may ask again. */
const MAX_WAIT_MS = 24 * 60 * 60_000;

/** One request about a task that was found. */
interface TaskRequest {
  readonly record: TaskRecord;
  readonly exchange: Exchange;
  readonly endpoint: Endpoint;
  readonly taskId: NamedParam;
}

/**
 * Requests about tasks, of 2025-11-25 and of the extension of 2026-07-28. A server of the client's era gets the request itself;
 * for one of the other era it is translated. A settled task is answered from the table.
 */
export class TaskRequests {
  readonly #parts: TaskParts;

  constructor(parts: TaskParts) {
    this.#parts = parts;
  }

  async run(asked: TaskRequest): Promise<Outcome> {
    const { record, exchange } = asked;
    const { method, era } = exchange.request;
    const relayed = record.era === era;
    if (method === 'tasks/get') {
      if (isOwn(record) && !isSettled(record) && era === 'stateless') return finalOutcome(record, null);
      if (isSettled(record) || isOwn(record)) return this.#view(asked, record);
      return relayed ? this.#relay(asked) : this.#get(asked);
    }
    if (method === 'tasks/cancel') {
      if (era === 'stateful' && isTerminal(record.status)) return alreadyEnded(record);
      return relayed ? this.#relay(asked) : this.#cancel(asked);
    }
    if (method === 'tasks/result' && era === 'stateful') return this.#result(asked);
    if (method === 'tasks/update' && era === 'stateless') return relayed ? this.#relay(asked) : this.#update(asked);
    return failure(new GatewayError('METHOD_NOT_FOUND', `Method not found: ${method}`));
  }

  /** Asks a server of the other era. A stateless client's view gets a stateful server's input requests and answer too. */
  async #get(asked: TaskRequest): Promise<Outcome> {
    const { exchange } = asked;
    const { table, streams, calls } = this.#parts;
    const outcome = await calls.own(asked.record, exchange.client.principal, 'tasks/get', exchange);
    const report = taskReportIn(outcome);
    if (outcome.kind === 'failure' || report === null) return outcome;
    let record = table.update(asked.record, report.update);
    if (record.era === 'stateful' && awaitsStream(record))
      record = await streams.awaitUpdate(record, exchange.client.principal);
    return this.#view(asked, record, outcome.message);
  }

  /** Blocks until the task has ended, at most a day: a request to the server that times out is repeated. */
  async #result(asked: TaskRequest): Promise<Outcome> {
    const { exchange, taskId } = asked;
    const { clock, table, waits } = this.#parts;
    const until = clock.now() + MAX_WAIT_MS;
    let { record } = asked;
    if (record.era === 'stateless' && !isSettled(record)) {
      return waits.wait({ record, exchange, related: taskId.value, until });
    }
    for (;;) {
      if (isSettled(record) || isOwn(record)) return finalOutcome(record, taskId.value);
      const outcome = await this.#relay({ ...asked, record });
      const overdue = outcome.kind === 'failure' && outcome.error.code === 'TIMEOUT';
      if (!overdue || clock.now() >= until) return outcome;
      if (exchange.cancelled !== null) return cancelled(record, exchange.cancelled);
      const now = table.get(record.key);
      if (now === null) return outcome;
      record = now;
    }
  }

  /** Answers to requests that are not open are ignored, without an error (SEP-2663 §Task Update Requests). */
  #update({ record, exchange }: TaskRequest): Outcome {
    const { bytes } = exchange.request;
    const responses = bodyField(exchange.request, 'inputResponses');
    if (!isObject(bytes, responses)) {
      return failure(new GatewayError('INVALID_PARAMS', 'params.inputResponses must be an object'));
    }
    this.#parts.streams.of(record)?.answer(bytes, responses);
    return ownAnswer('stateless', '');
  }

  /** At a server of the other era. The extension only acknowledges, also for a task that has ended. */
  async #cancel(asked: TaskRequest): Promise<Outcome> {
    const { record, exchange } = asked;
    const { table, streams, calls } = this.#parts;
    const { principal } = exchange.client;
    if (exchange.request.era === 'stateless') {
      if (isTerminal(record.status)) return ownAnswer('stateless', '');
      const outcome = await calls.own(record, principal, 'tasks/cancel');
      if (outcome.kind === 'failure') return outcome;
      const report = parseTaskReport(outcome.message);
      if (report !== null) {
        table.update(record, report.update);
        streams.close(record, 'the task was cancelled');
      }
      return ownAnswer('stateless', '');
    }
    // A stateless server acknowledges every request: ask first whether there is still something to cancel.
    const outcome = await calls.own(record, principal, 'tasks/get', exchange);
    const report = taskReportIn(outcome);
    if (outcome.kind === 'failure' || report === null) return outcome;
    const now = table.update(record, report.update);
    if (isTerminal(now.status)) return alreadyEnded(now);
    const ended = await calls.own(record, principal, 'tasks/cancel');
    if (ended.kind === 'failure' || ended.message.kind === 'error') return ended;
    // From now on the task is cancelled for its client, whatever its server does (§Task Cancellation).
    return this.#view(asked, table.update(now, { status: 'cancelled' }));
  }

  async #relay({ record, exchange, endpoint, taskId }: TaskRequest): Promise<Outcome> {
    const { table, ids, calls } = this.#parts;
    const { request, client } = exchange;
    const { server } = record;
    const mappings = ids.mappings(server, client.principal, endpoint);
    const outcome = await calls.relay(record, exchange, withParam(request, taskId, record.taskId), mappings);
    if (outcome.kind === 'failure') return outcome;
    const { message } = outcome;
    if (request.method === 'tasks/result') {
      const now = table.get(record.key) ?? record;
      if (message.kind === 'result' || isTerminal(now.status)) table.update(now, endedBy(now, message));
    } else {
      const report = parseTaskReport(message);
      if (report !== null) table.update(record, report.update);
    }
    const refused = request.era === 'stateless' ? refusedInput(server, client, message) : null;
    return answer(refused ?? ids.outward(message, server, client.principal, endpoint));
  }

  /** `from`: the server's answer, whose `_meta` is kept. */
  #view({ taskId, exchange }: TaskRequest, record: TaskRecord, from: Message | null = null): Outcome {
    const { client, request } = exchange;
    const shown = (view: Buffer) => result('0', from === null ? view : withMeta(view, from), request.era);
    if (request.era === 'stateful') return answer(shown(statefulView(record, taskId.value)));
    const questions = this.#parts.streams.of(record)?.questions ?? null;
    const task = shown(statelessView(record, taskId.value, questions, 'complete'));
    // Another client of the caller may have begun the task.
    return answer(refusedInput(record.server, client, task) ?? task);
  }
}

/** Whether the gateway made the task, of which its server knows nothing. Only the node that began it has a long answer. */
function isOwn({ era }: TaskRecord): boolean {
  return era === null;
}

function alreadyEnded({ status }: TaskRecord): Outcome {
  return failure(new GatewayError('INVALID_PARAMS', `Cannot cancel task: already in terminal status '${status}'`));
}
