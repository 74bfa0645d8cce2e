import type { Clock } from '../../model/clock.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { errorCode, withRelatedTask } from '../../protocol/body.ts';
import { toStateless } from '../../protocol/stateless/to-stateless.ts';
import { declaringTasks } from '../../protocol/tasks/extension.ts';
import { isSettled, plainOutcome } from './task-answers.ts';
import type { TaskCalls } from './task-calls.ts';
import { askingForTask, type TaskCreation, type ToolCall } from './task-creation.ts';
import { createdTask, heardTask } from './task-news.ts';
import type { TaskPolling } from './task-polling.ts';

export interface OnBehalfDeps {
  readonly clock: Clock;
  readonly calls: TaskCalls;
  readonly creation: TaskCreation;
  readonly polling: TaskPolling;
  /** The upper bound of any call. */
  readonly maxTimeoutMs: () => number;
}

/**
 * Tools that can be had as a task only, for clients that know no tasks: the gateway starts the task, waits for its end
 * and gives the call its ordinary answer. The task is the call's own; when the call is given up, so is the task.
 */
export class OnBehalf {
  readonly #deps: OnBehalfDeps;

  constructor(deps: OnBehalfDeps) {
    this.#deps = deps;
  }

  async atStateful(call: ToolCall): Promise<Outcome> {
    const { calls, creation } = this.#deps;
    const { target, exchange } = call;
    const asked = askingForTask(target.request);
    if (asked instanceof GatewayError) return failure(asked);
    const outcome = await calls.beginAndWait(target, exchange, asked, {
      emitted: (notification) => withRelatedTask(notification, null),
      asked: (question) => withRelatedTask(question, null),
    });
    const created = outcome.kind === 'answer' ? createdTask(outcome.message) : null;
    if (created === null) return outcome;
    const record = creation.unlisted(call, 'stateful', created);
    const ended = await calls.along(record, exchange, 'tasks/result', {
      emitted: (notification) => withRelatedTask(notification, null),
      asked: (question) => withRelatedTask(question, null),
      answered: (given) => withRelatedTask(given, record.taskId),
    });
    return plainOutcome(await this.#settled(call, record, ended));
  }

  async atStateless(call: ToolCall): Promise<Outcome> {
    const { target, exchange } = call;
    const asked = declaringTasks(toStateless(target.request, exchange.client));
    return this.ended(call, await this.#deps.calls.begin(target, exchange, asked, {}));
  }

  /** The end of the task that a stateless server may have answered the call with. */
  async ended(call: ToolCall, outcome: Outcome): Promise<Outcome> {
    const { clock, creation, polling, maxTimeoutMs } = this.#deps;
    const created = outcome.kind === 'answer' ? createdTask(outcome.message) : null;
    if (created === null) return outcome;
    const record = creation.unlisted(call, 'stateless', created);
    const until = clock.now() + maxTimeoutMs();
    const ended = await polling.wait({ record, exchange: call.exchange, related: null, until });
    return this.#settled(call, record, ended);
  }

  /** A task without a waiting caller must not run on. */
  async #settled({ exchange }: ToolCall, record: TaskRecord, ended: Outcome): Promise<Outcome> {
    const { calls, polling } = this.#deps;
    polling.forget(record);
    if (ended.kind !== 'failure') return (await this.#isLost(exchange, record, ended.message)) ? lost(record) : ended;
    void calls.own(record, exchange.client.principal, 'tasks/cancel');
    // What failed asked about the task; the call itself had been sent.
    return failure(ended.error.begun());
  }

  /**
   * A server that was started anew meanwhile knows nothing of the task, and says so in the words for bad parameters.
   * Such an error may also be how the task ended, so the server is asked whether it knows the task at all.
   */
  async #isLost({ client }: Exchange, record: TaskRecord, ended: Message): Promise<boolean> {
    if (ended.kind !== 'error' || isSettled(record)) return false;
    if (errorCode(ended) !== CATALOGUE.INVALID_PARAMS.rpc) return false;
    const outcome = await this.#deps.calls.own(record, client.principal, 'tasks/get');
    return outcome.kind === 'failure' || heardTask(outcome.message) === null;
  }
}

function lost({ server }: TaskRecord): Outcome {
  return failure(
    new GatewayError('UNKNOWN', `${server} does not know the task any more that the call began`, { server }),
  );
}
