import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Exchange, Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { request } from '../../protocol/compose.ts';
import { toStateless } from '../../protocol/stateless/to-stateless.ts';
import { declaringTasks } from '../../protocol/tasks.ts';
import type { Dispatch } from '../dispatch/dispatch.ts';
import { OwnExchange } from '../own-exchange.ts';
import type { Target } from '../target.ts';
import { createdIn } from './task-views.ts';

/** The limit of a task's id, which is stored, used as a key and sent with every request about the task. */
const MAX_ID_BYTES = 1_024;

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
    const begun = new RelayedExchange(exchange, asked, mappings, exchange.client, true, waits);
    return keepable(target.server, await this.#dispatch.call(target, asked, begun));
  }

  /** Sends the gateway's own request, which is cancelled with the exchange `within`. `more`: params beside the id. */
  async own(
    record: TaskRecord,
    principal: Principal,
    method: string,
    within: Exchange | null = null,
    more = '',
  ): Promise<Outcome> {
    const starter = starterOf(record, principal);
    const asked = composed(record, starter, method, more);
    const exchange = new OwnExchange(`task:${record.key.slice(0, 8)}`, asked, starter);
    if (within !== null) within.onCancel = (reason) => exchange.cancel(reason);
    const outcome = await this.#dispatch.callServer(record.server, asked, exchange);
    if (within !== null) within.onCancel = null;
    return outcome;
  }

  /** Sends the client's request, `asked`, with the server's own names, within the client's exchange. */
  relay(record: TaskRecord, exchange: Exchange, asked: Message, mappings: Mappings): Promise<Outcome> {
    const starter = starterOf(record, exchange.client.principal);
    const client = record.era === 'stateless' ? exchange.client : starter;
    return this.#dispatch.callServer(record.server, asked, new RelayedExchange(exchange, asked, mappings, client));
  }
}

/** An exchange within another: cancelled with it, but with its own request, client and mappings of messages. */
class RelayedExchange implements Exchange {
  readonly id: string;
  readonly request: Message;
  readonly client: ClientProfile;
  readonly beginsTask: boolean;
  readonly waitsForTask: boolean;
  readonly trace: string | undefined;
  readonly #outer: Exchange;
  readonly #mappings: Mappings;

  constructor(
    outer: Exchange,
    request: Message,
    mappings: Mappings,
    client: ClientProfile,
    beginsTask = false,
    waits = false,
  ) {
    this.id = outer.id;
    this.request = request;
    this.client = client;
    this.beginsTask = beginsTask;
    this.waitsForTask = waits;
    this.trace = outer.trace;
    this.#outer = outer;
    this.#mappings = mappings;
  }

  get takesInputRequired(): boolean {
    return this.#outer.takesInputRequired;
  }

  get sealsInput(): boolean {
    return this.#outer.sealsInput === true;
  }

  get paramHeaders(): Readonly<Record<string, string>> | null {
    return this.#outer.paramHeaders ?? null;
  }

  get cancelled(): string | null {
    return this.#outer.cancelled;
  }

  get onCancel(): ((reason: string) => void) | null {
    return this.#outer.onCancel;
  }

  set onCancel(handler: ((reason: string) => void) | null) {
    this.#outer.onCancel = handler;
  }

  emit(notification: Message, flow: Flow | null = null): void {
    this.#outer.emit(this.#mappings.emitted?.(notification) ?? notification, flow);
  }

  async ask(request: Message, likely = false): Promise<Message> {
    const { asked, answered } = this.#mappings;
    const reply = await this.#outer.ask(asked?.(request) ?? request, likely);
    return answered?.(reply) ?? reply;
  }
}

/** The outcome of a call; a failure if it is a task with an id that is too long. */
function keepable(server: string, outcome: Outcome): Outcome {
  const created = createdIn(outcome);
  if (created === null || Buffer.byteLength(created.state.taskId) <= MAX_ID_BYTES) return outcome;
  const text = `${server} made a task whose id is longer than ${MAX_ID_BYTES} bytes`;
  return failure(new GatewayError('UPSTREAM_PROTOCOL', text, { server }));
}

/** Composes a request in the format of the server that runs the task. */
export function composed(record: TaskRecord, starter: ClientProfile, method: string, more = ''): Message {
  const asked = request(method, '"0"', `{"taskId":${JSON.stringify(record.taskId)}${more}}`, 'stateful');
  return record.era === 'stateless' ? declaringTasks(toStateless(asked, starter)) : asked;
}
