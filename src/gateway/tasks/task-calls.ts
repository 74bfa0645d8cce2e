import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { request } from '../../protocol/compose.ts';
import { toStateless } from '../../protocol/stateless/to-stateless.ts';
import { declaringTasks } from '../../protocol/tasks/extension.ts';
import type { Dispatch } from '../dispatch/dispatch.ts';
import { OwnExchange } from '../own-exchange.ts';
import type { Target } from '../target.ts';
import { type Mappings, RelayedExchange } from './relayed-exchange.ts';
import { createdTask } from './task-news.ts';

/** Ids are kept with their tasks, as keys too, and go with every request about them. */
const MAX_ID_BYTES = 1_024;

/** The client that a task was started by, as its server knows it: its calls find the connection that the task is on. */
export function starterOf(record: TaskRecord, principal: Principal): ClientProfile {
  return { logLevel: null, ...record.client, principal, sessionId: record.sessionId };
}

/** Requests about a task to the server that runs it, over the connection on which it was started. */
export class TaskCalls {
  readonly #dispatch: Dispatch;

  constructor(dispatch: Dispatch) {
    this.#dispatch = dispatch;
  }

  /** The call that may begin a task, as its server gets it. */
  async begin(target: Target, exchange: Exchange, asked: Message, mappings: Mappings): Promise<Outcome> {
    const begun = new BeginningExchange(exchange, asked, mappings);
    return keepable(target.server, await this.#dispatch.call(target, asked, begun));
  }

  /** The same where the client waits for the end of the task. */
  async beginAndWait(target: Target, exchange: Exchange, asked: Message, mappings: Mappings): Promise<Outcome> {
    const begun = new WaitingExchange(exchange, asked, mappings);
    return keepable(target.server, await this.#dispatch.call(target, asked, begun));
  }

  /** A request of ours. `begun` gets the exchange, to cancel it by; `more` are members of the params beside the id. */
  own(
    record: TaskRecord,
    principal: Principal,
    method: string,
    begun: (exchange: OwnExchange) => void = () => {},
    more = '',
  ): Promise<Outcome> {
    const starter = starterOf(record, principal);
    const asked = composed(record, starter, method, more);
    const exchange = new OwnExchange(`task:${record.key.slice(0, 8)}`, asked, starter);
    begun(exchange);
    return this.#dispatch.callServer(record.server, asked, exchange);
  }

  /** A request of ours that the client's own exchange goes along with: what the server says and asks is said to it. */
  along(record: TaskRecord, exchange: Exchange, method: string, mappings: Mappings): Promise<Outcome> {
    const starter = starterOf(record, exchange.client.principal);
    const asked = composed(record, starter, method, '');
    return this.#dispatch.callServer(record.server, asked, new RelayedExchange(exchange, asked, mappings, starter));
  }

  /** The client's own request, in the names of the server. */
  relay(record: TaskRecord, exchange: Exchange, asked: Message, mappings: Mappings): Promise<Outcome> {
    const starter = starterOf(record, exchange.client.principal);
    const client = record.era === 'stateless' ? exchange.client : starter;
    return this.#dispatch.callServer(record.server, asked, new RelayedExchange(exchange, asked, mappings, client));
  }
}

class BeginningExchange extends RelayedExchange {
  readonly beginsTask = true;
}

class WaitingExchange extends BeginningExchange {
  readonly waitsForTask = true;
}

/** The answer to a call, unless it is a task that cannot be kept. */
function keepable(server: string, outcome: Outcome): Outcome {
  const created = outcome.kind === 'answer' ? createdTask(outcome.message) : null;
  if (created === null || Buffer.byteLength(created.state.taskId) <= MAX_ID_BYTES) return outcome;
  const text = `${server} made a task whose id is longer than ${MAX_ID_BYTES} bytes`;
  return failure(new GatewayError('UPSTREAM_PROTOCOL', text, { server }));
}

/** The request as the server of the task gets it. */
export function composed(record: TaskRecord, starter: ClientProfile, method: string, more: string): Message {
  const asked = request(method, '"0"', `{"taskId":${JSON.stringify(record.taskId)}${more}}`, 'stateful');
  return record.era === 'stateless' ? declaringTasks(toStateless(asked, starter)) : asked;
}
