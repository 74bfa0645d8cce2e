import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { isTerminal } from '../../model/task-status.ts';
import { bodyField } from '../../protocol/body.ts';
import { result } from '../../protocol/compose.ts';
import { decodeString, entries } from '../../protocol/fields.ts';
import { withParam } from '../params.ts';
import type { ResultStreams } from './result-streams.ts';
import type { TaskRequest } from './stateful-requests.ts';
import { isSettled, statelessView, withMeta } from './task-answers.ts';
import type { TaskCalls } from './task-calls.ts';
import type { TaskNames } from './task-names.ts';
import { heardTask } from './task-news.ts';
import type { TaskTable } from './task-table.ts';

export interface StatelessRequestsDeps {
  readonly table: TaskTable;
  readonly names: TaskNames;
  readonly calls: TaskCalls;
  readonly streams: ResultStreams;
}

/**
 * `tasks/get`, `tasks/update` and `tasks/cancel` of the extension. A stateless server's answers are passed on; of a
 * stateful server's task the questions and the answer, which come on a stream of ours, are put into `tasks/get`.
 */
export class StatelessRequests {
  readonly #deps: StatelessRequestsDeps;

  constructor(deps: StatelessRequestsDeps) {
    this.#deps = deps;
  }

  run(asked: TaskRequest): Promise<Outcome> {
    const { record, exchange } = asked;
    const { method } = exchange.request;
    const relayed = record.era === 'stateless';
    switch (method) {
      case 'tasks/get':
        if (isSettled(record)) return Promise.resolve(this.#view(asked, record));
        return relayed ? this.#relay(asked) : this.#get(asked);
      case 'tasks/update':
        return relayed ? this.#relay(asked) : Promise.resolve(this.#update(asked));
      case 'tasks/cancel':
        return relayed ? this.#relay(asked) : this.#cancel(asked);
      default:
        return Promise.resolve(failure(new GatewayError('METHOD_NOT_FOUND', `Method not found: ${method}`)));
    }
  }

  async #get(asked: TaskRequest): Promise<Outcome> {
    const { exchange } = asked;
    const { table, calls, streams } = this.#deps;
    const { principal } = exchange.client;
    const outcome = await calls.own(asked.record, principal, 'tasks/get', (own) => {
      exchange.onCancel = (reason) => own.cancel(reason);
    });
    exchange.onCancel = null;
    if (outcome.kind === 'failure') return outcome;
    const heard = heardTask(outcome.message);
    if (heard === null) return outcome;
    let record = table.update(asked.record, heard.news);
    const waits = record.status === 'input_required' || (isTerminal(record.status) && !isSettled(record));
    if (waits) record = await streams.heard(record, principal);
    return this.#view(asked, record, outcome);
  }

  /** Answers to requests that are not open are ignored, without an error (SEP-2663 §Task Update Requests). */
  #update({ record, exchange }: TaskRequest): Outcome {
    const { bytes } = exchange.request;
    const responses = bodyField(exchange.request, 'inputResponses');
    if (responses === null || bytes[responses.start] !== 0x7b) {
      return failure(new GatewayError('INVALID_PARAMS', 'params.inputResponses must be an object'));
    }
    const stream = this.#deps.streams.of(record);
    for (const { keyStart, keyEnd, valueStart, valueEnd } of entries(bytes, responses.start, responses.end)) {
      const key = decodeString(bytes, keyStart, keyEnd);
      if (key !== null) stream?.answer(key, Buffer.from(bytes.subarray(valueStart, valueEnd)));
    }
    return acknowledged();
  }

  /** The extension knows no answer but "heard": of a task that has ended already, too. */
  async #cancel({ record, exchange }: TaskRequest): Promise<Outcome> {
    if (isTerminal(record.status)) return acknowledged();
    const { table, calls, streams } = this.#deps;
    const outcome = await calls.own(record, exchange.client.principal, 'tasks/cancel');
    if (outcome.kind === 'failure') return outcome;
    const heard = heardTask(outcome.message);
    if (heard !== null) {
      table.update(record, heard.news);
      streams.close(record, 'the task was cancelled');
    }
    return acknowledged();
  }

  async #relay({ record, exchange, endpoint, taskId }: TaskRequest): Promise<Outcome> {
    const { table, names, calls } = this.#deps;
    const { request, client } = exchange;
    const mappings = names.mappings(record.server, client.principal, endpoint);
    const outcome = await calls.relay(record, exchange, withParam(request, taskId, record.taskId), mappings);
    if (outcome.kind === 'failure') return outcome;
    const heard = request.method === 'tasks/get' ? heardTask(outcome.message) : null;
    if (heard !== null) table.update(record, heard.news);
    return answer(names.outward(outcome.message, record.server, client.principal, endpoint));
  }

  #view({ taskId }: TaskRequest, record: TaskRecord, from?: Outcome): Outcome {
    const questions = this.#deps.streams.of(record)?.questions ?? null;
    const view = statelessView(record, taskId.value, questions, 'complete');
    const message = from?.kind === 'answer' ? from.message : null;
    return answer(result('0', message === null ? view : withMeta(view, message), 'stateless'));
  }
}

function acknowledged(): Outcome {
  return answer(result('0', '{"resultType":"complete"}', 'stateless'));
}
