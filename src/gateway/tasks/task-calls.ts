import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import { cancelledBeforeSend, GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { MAX_TASK_ID_BYTES } from '../../model/task-sizes.ts';
import { request } from '../../protocol/compose.ts';
import { toStateless } from '../../protocol/stateless/to-stateless.ts';
import { declaringTasks } from '../../protocol/tasks.ts';
import type { Dispatch } from '../dispatch/dispatch.ts';
import { innerExchange } from '../inner-exchange.ts';
import { OwnExchange } from '../own-exchange.ts';
import type { Target } from '../target.ts';
import { createdIn } from './task-views.ts';

/** Changes of messages on their way between a server and the client of the exchange. */
export interface Mappings {
  readonly emitted?: (notification: Message) => Message;
  readonly asked?: (request: Message) => Message;
  readonly answered?: (answer: Message) => Message;
}

/** The client that started the task, as its server knows it, so that requests use the connection of the task. */
export function starterOf(record: TaskRecord, principal: Principal): ClientProfile {
  return { logLevel: null, ...record.client, principal, sessionId: record.sessionId };
}

/** Requests about a task to the server that runs it, over the connection on which it was started. */
export class TaskCalls {
  readonly #dispatch: Dispatch;

  constructor(dispatch: Dispatch) {
    this.#dispatch = dispatch;
  }

  /** Sends the call that may begin a task. `waits`: this call waits for the end of the task. */
  async begin(target: Target, exchange: Exchange, asked: Message, mappings: Mappings, waits = false): Promise<Outcome> {
    const own = { ...mapped(exchange, mappings), request: asked, beginsTask: true, waitsForTask: waits };
    return keepable(target.server, await this.#dispatch.call(target, asked, innerExchange(exchange, own)));
  }

  /** Sends the gateway's own request, which is cancelled with the exchange `within`. `more`: params beside the id. */
  async own(
    record: TaskRecord,
    principal: Principal,
    method: string,
    within: Exchange | null = null,
    more = '',
  ): Promise<Outcome> {
    if (within !== null && within.cancelled !== null)
      return failure(cancelledBeforeSend(record.server, within.cancelled));
    const starter = starterOf(record, principal);
    const asked = composed(record, starter, method, more);
    const exchange = new OwnExchange(`task:${record.key.slice(0, 8)}`, asked, starter);
    if (within !== null) within.onCancel = (reason) => exchange.cancel(reason);
    const outcome = await this.#dispatch.callServer(record.server, asked, exchange);
    if (within !== null) {
      within.onCancel = null;
      exchange.recordIn(within);
    }
    return outcome;
  }

  /** Sends the client's request, `asked`, with the server's own names, within the client's exchange with other `members`. */
  relay(
    record: TaskRecord,
    exchange: Exchange,
    asked: Message,
    mappings: Mappings,
    members: Partial<Exchange> = {},
  ): Promise<Outcome> {
    const starter = starterOf(record, exchange.client.principal);
    const client = record.era === 'stateless' ? exchange.client : starter;
    const own = { ...mapped(exchange, mappings), request: asked, client, ...members };
    return this.#dispatch.callServer(record.server, asked, innerExchange(exchange, own));
  }
}

/** The messages of an inner exchange on their way to and from the client. */
function mapped(outer: Exchange, { emitted, asked, answered }: Mappings): Pick<Exchange, 'emit' | 'ask'> {
  return {
    emit: (notification, flow) => outer.emit(emitted?.(notification) ?? notification, flow),
    ask: async (question, likely) => {
      const reply = await outer.ask(asked?.(question) ?? question, likely);
      return answered?.(reply) ?? reply;
    },
  };
}

/** The outcome of a call; a failure if it is a task with an id that is too long. */
function keepable(server: string, outcome: Outcome): Outcome {
  const created = createdIn(outcome);
  if (created === null || Buffer.byteLength(created.state.taskId) <= MAX_TASK_ID_BYTES) return outcome;
  const text = `${server} made a task whose id is longer than ${MAX_TASK_ID_BYTES} bytes`;
  return failure(new GatewayError('UPSTREAM_PROTOCOL', text, { server }));
}

/** Composes a request in the format of the server that runs the task. */
export function composed(record: TaskRecord, starter: ClientProfile, method: string, more = ''): Message {
  const asked = request(method, '"0"', `{"taskId":${JSON.stringify(record.taskId)}${more}}`, 'stateful');
  return record.era === 'stateless' ? declaringTasks(toStateless(asked, starter)) : asked;
}
