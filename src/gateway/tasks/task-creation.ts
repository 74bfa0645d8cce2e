import type { Clock } from '../../model/clock.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { foreignState, GatewayError } from '../../model/gateway-error.ts';
import type { Era, Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import { errorCode, withRelatedTask } from '../../protocol/body.ts';
import { result } from '../../protocol/compose.ts';
import { fieldAt, text } from '../../protocol/fields.ts';
import { editMembers, spliceMessage } from '../../protocol/splice.ts';
import { toStateful } from '../../protocol/stateful/to-stateful.ts';
import { inputOf } from '../../protocol/stateless/input-required.ts';
import { toStateless } from '../../protocol/stateless/to-stateless.ts';
import { declaringTasks } from '../../protocol/tasks.ts';
import type { Target } from '../target.ts';
import type { ResultStreams } from './result-streams.ts';
import { composed, type Mappings, starterOf, type TaskCalls } from './task-calls.ts';
import type { TaskIds } from './task-ids.ts';
import type { TaskStatusSubscriptions } from './task-status-subscriptions.ts';
import type { NewTask, TaskTable } from './task-table.ts';
import {
  createdIn,
  createdTask,
  isSettled,
  isToolError,
  kept,
  ownMeta,
  plainOutcome,
  statefulView,
  statelessView,
  type TaskReport,
  taskReportIn,
  withMeta,
} from './task-views.ts';
import type { TaskWaits } from './task-waits.ts';

/** How long the answer of a server that made no task is kept: by default, and at most. */
const MINTED_TTL_MS = 60 * 60_000;
const MAX_MINTED_TTL_MS = 24 * 60 * 60_000;

/** One `tools/call` that may become a task. */
export interface ToolCall {
  readonly target: Target;
  readonly exchange: Exchange;
  readonly endpoint: Endpoint;
  /** Whether the tool's structured results are wrapped for stateful clients. */
  readonly wraps: boolean;
}

/** Dependencies of the parts that handle tasks. */
export interface TaskParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly table: TaskTable;
  readonly ids: TaskIds;
  readonly calls: TaskCalls;
  readonly waits: TaskWaits;
  readonly streams: ResultStreams;
  readonly statusSubscriptions: TaskStatusSubscriptions;
  /** `maxTimeoutMs`: the upper bound of any call. */
  readonly desired: { readonly state: Pick<DesiredState, 'maxTimeoutMs'> };
}

/** Turns calls into tasks, for each combination of client and server (decision 017). */
export class TaskCreation {
  readonly #parts: TaskParts;

  constructor(parts: TaskParts) {
    this.#parts = parts;
  }

  /** Client and server have the same era: only the id may differ. */
  async relay(call: ToolCall): Promise<Outcome> {
    const { target, exchange, endpoint } = call;
    const { principal } = exchange.client;
    const outcome = await this.#call(call, target.request);
    if (outcome.kind === 'failure') return outcome;
    const created = createdTask(outcome.message);
    if (created !== null) this.#begin(call, outcome.message.era, created);
    return answer(this.#parts.ids.outward(outcome.message, target.server, principal, endpoint));
  }

  /** A stateful client asks a stateless server for a task. If the server answers at once, the answer becomes a completed task. */
  async atStateless(call: ToolCall): Promise<Outcome> {
    const { client } = call.exchange;
    const asked = declaringTasks(toStateless(call.target.request, client, client.logLevel));
    const outcome = await this.#call(call, asked);
    if (outcome.kind === 'failure' || outcome.message.kind === 'error') return outcome;
    const created = createdTask(outcome.message);
    const record =
      created === null ? this.#mint(call, outcome.message) : this.#begin(call, outcome.message.era, created);
    const task = statefulView(record, this.#exposed(record, call));
    const meta = created === null ? null : ownMeta(outcome.message);
    const members = [Buffer.from('{"task":'), task, ...(meta === null ? [] : [Buffer.from(',"_meta":'), meta]), CLOSE];
    return answer(result('0', Buffer.concat(members), 'stateful'));
  }

  /** A stateless client that accepts tasks calls a tool of a stateful server that requires a task. */
  async atStateful(call: ToolCall): Promise<Outcome> {
    const asked = askingForTask(call.target.request);
    if (asked instanceof GatewayError) return failure(asked);
    const outcome = await this.#call(call, asked);
    if (outcome.kind === 'failure') return outcome;
    const created = createdTask(outcome.message);
    if (created === null) return outcome;
    const record = this.#begin(call, outcome.message.era, created);
    const view = statelessView(record, this.#exposed(record, call), null, 'task');
    return answer(result('0', withMeta(view, outcome.message), 'stateless'));
  }

  /** A task that its client does not know of; it is not in the table, and only the waiting call has it. */
  #unlisted(call: ToolCall, era: Era, created: TaskReport): TaskRecord {
    const key = this.#parts.random.hex(16);
    return { ...newTask(call, era, created, this.#parts.ids), key, startedAt: 0, expiresAt: Number.POSITIVE_INFINITY };
  }

  /**
   * Calls a tool that requires a task for a client without tasks: the gateway starts the task, waits for its end and returns
   * the ordinary answer. If the call is cancelled, so is the task.
   */
  async awaitAtStateful(call: ToolCall): Promise<Outcome> {
    const { calls } = this.#parts;
    const { target, exchange } = call;
    const asked = askingForTask(target.request);
    if (asked instanceof GatewayError) return failure(asked);
    const outcome = await calls.begin(target, exchange, asked, UNRELATED, true);
    const created = createdIn(outcome);
    if (created === null) return outcome;
    const record = this.#unlisted(call, 'stateful', created);
    const answered = (given: Message) => withRelatedTask(given, record.taskId);
    const fetched = composed(record, starterOf(record, exchange.client.principal), 'tasks/result');
    // Sent even if a node that has died sent the call: it only reads, and its id is not the client's.
    const ended = await calls.relay(record, exchange, fetched, { ...UNRELATED, answered }, { returned: false });
    return plainOutcome(await this.#settled(call, record, ended));
  }

  async awaitAtStateless(call: ToolCall): Promise<Outcome> {
    const { target, exchange } = call;
    const { client } = exchange;
    const asked = declaringTasks(toStateless(target.request, client, client.logLevel));
    return this.awaitEnd(call, await this.#parts.calls.begin(target, exchange, asked, {}));
  }

  /** Waits for the end of the task with which a stateless server may have answered the call. */
  async awaitEnd(call: ToolCall, outcome: Outcome): Promise<Outcome> {
    const { clock, waits, desired } = this.#parts;
    const created = createdIn(outcome);
    if (created === null) return outcome;
    const record = this.#unlisted(call, 'stateless', created);
    const until = clock.now() + desired.state.maxTimeoutMs;
    const ended = await waits.wait({ record, exchange: call.exchange, related: null, until });
    return this.#settled(call, record, ended);
  }

  /** Cancels the task if the wait for it failed: no caller waits for it any longer. */
  async #settled({ exchange }: ToolCall, record: TaskRecord, ended: Outcome): Promise<Outcome> {
    if (ended.kind !== 'failure') return (await this.#isLost(exchange, record, ended.message)) ? lost(record) : ended;
    void this.#parts.calls.own(record, exchange.client.principal, 'tasks/cancel');
    // The request that failed was about the task; the call itself had been sent.
    return failure(ended.error.begun());
  }

  /**
   * Whether the server has lost the task by a restart. It then returns the error for invalid params, which may also be how the
   * task ended, so the gateway asks the server whether it knows the task.
   */
  async #isLost({ client }: Exchange, record: TaskRecord, ended: Message): Promise<boolean> {
    if (ended.kind !== 'error' || isSettled(record)) return false;
    if (errorCode(ended) !== CATALOGUE.INVALID_PARAMS.rpc) return false;
    const outcome = await this.#parts.calls.own(record, client.principal, 'tasks/get');
    return taskReportIn(outcome) === null;
  }

  #call({ target, exchange, endpoint }: ToolCall, request: Message): Promise<Outcome> {
    const refused = this.#parts.table.refusal(exchange.client.principal.id);
    if (refused !== null) return Promise.resolve(failure(refused));
    const mappings = this.#parts.ids.mappings(target.server, exchange.client.principal, endpoint);
    return this.#parts.calls.begin(target, exchange, request, mappings);
  }

  #begin(call: ToolCall, era: Era, created: TaskReport): TaskRecord {
    const record = this.#parts.table.add(newTask(call, era, created, this.#parts.ids));
    this.#parts.statusSubscriptions.follow(record, call.exchange.client.principal);
    return record;
  }

  #mint(call: ToolCall, { era, body }: Message): TaskRecord {
    const { clock, random, table } = this.#parts;
    const taskId = `trunkline-${random.hex(16)}`;
    const ttlMs = wantedTtl(call.exchange.request);
    const at = new Date(clock.wall()).toISOString();
    const status = isToolError(body) ? 'failed' : 'completed';
    const description = Buffer.from(JSON.stringify({ taskId, status, createdAt: at, lastUpdatedAt: at, ttl: ttlMs }));
    const state = { taskId, status, ttlMs, pollIntervalMs: null } as const;
    const update = { description, answer: kept('result', era, body) };
    return table.add(newTask(call, null, { state, update }, this.#parts.ids));
  }

  #exposed(record: TaskRecord, { exchange, endpoint }: ToolCall): string {
    return this.#parts.ids.exposed(record, exchange.client.principal, endpoint);
  }
}

export function newTask(call: ToolCall, era: Era | null, { state, update }: TaskReport, ids: TaskIds): NewTask {
  const { exchange, wraps } = call;
  const { server } = call.target;
  const { principal, sessionId, passing, revision, capabilities, fingerprint, info, handle, forwarded } =
    exchange.client;
  return {
    server,
    taskId: state.taskId,
    sealedId: ids.sealed({ server, taskId: state.taskId }, principal),
    principal: principal.id,
    sessionId,
    ...(passing === true ? { passing } : {}),
    client: { revision, capabilities, fingerprint, info, handle, forwarded },
    era,
    wraps,
    status: state.status,
    description: update.description!,
    ttlMs: state.ttlMs,
    pollIntervalMs: state.pollIntervalMs,
    answer: update.answer ?? null,
  };
}

/** The request in the stateful format, which asks for a task as the answer. */
function askingForTask(request: Message): Message | GatewayError {
  if (request.era === 'stateless') {
    const { responses, state } = inputOf(request);
    // A stateful server never returned such a state; to send the call would be to run it again.
    if (responses !== null || state !== null) return foreignState();
  }
  const asked = toStateful(request);
  const { bytes, bodyStart: start, bodyEnd: end } = asked;
  return spliceMessage(asked, editMembers(bytes, { start, end }, [['task', '{}']]));
}

function wantedTtl(request: Message): number {
  const { bytes, bodyStart, bodyEnd } = request;
  const range = fieldAt(bytes, bodyStart, bodyEnd, ['task', 'ttl']);
  const wanted = range === null ? Number.NaN : Number(text(bytes, range));
  return Number.isFinite(wanted) && wanted > 0 ? Math.min(wanted, MAX_MINTED_TTL_MS) : MINTED_TTL_MS;
}

const CLOSE = Buffer.from('}');

function lost({ server }: TaskRecord): Outcome {
  return failure(new GatewayError('UNKNOWN', `${server} no longer knows the task that the call started`, { server }));
}

/** Removes the relation to a task from messages to a client that does not know of it. */
const UNRELATED: Mappings = {
  emitted: (notification) => withRelatedTask(notification, null),
  asked: (question) => withRelatedTask(question, null),
};
