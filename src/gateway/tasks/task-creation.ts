import type { Clock } from '../../model/clock.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
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
import type { TaskFollowing } from './task-following.ts';
import type { TaskIds } from './task-ids.ts';
import type { NewTask, TaskTable } from './task-table.ts';
import {
  createdIn,
  createdTask,
  heardIn,
  isSettled,
  isToolError,
  kept,
  ownMeta,
  plainOutcome,
  statefulView,
  statelessView,
  type TaskReport,
  withMeta,
} from './task-views.ts';
import type { TaskWaits } from './task-waits.ts';

/** How long the answer of a server that made no task is kept, where the client did not say and at the most. */
const MINTED_TTL_MS = 60 * 60_000;
const MAX_MINTED_TTL_MS = 24 * 60 * 60_000;

/** One `tools/call` that may become a task. */
export interface ToolCall {
  readonly target: Target;
  readonly exchange: Exchange;
  readonly endpoint: Endpoint;
  /** The tool's structured results are wrapped for stateful clients. */
  readonly wraps: boolean;
}

/** What tasks are made of. */
export interface TaskParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly table: TaskTable;
  readonly ids: TaskIds;
  readonly calls: TaskCalls;
  readonly waits: TaskWaits;
  readonly streams: ResultStreams;
  readonly following: TaskFollowing;
  /** Has the upper bound of any call. */
  readonly desired: { readonly state: Pick<DesiredState, 'maxTimeoutMs'> };
}

/** How calls become tasks, in each pairing of client and server (decision 017). */
export class TaskCreation {
  readonly #parts: TaskParts;

  constructor(parts: TaskParts) {
    this.#parts = parts;
  }

  /** Client and server speak of tasks in the same words: only the id may be another. */
  async relay(call: ToolCall): Promise<Outcome> {
    const { target, exchange, endpoint } = call;
    const { principal } = exchange.client;
    const outcome = await this.#call(call, target.request);
    if (outcome.kind === 'failure') return outcome;
    const created = createdTask(outcome.message);
    if (created !== null) this.#begin(call, outcome.message.era, created);
    return answer(this.#parts.ids.outward(outcome.message, target.server, principal, endpoint));
  }

  /**
   * A stateful client asks a stateless server for a task. The server decides; where it answers at once, the answer
   * becomes a task of ours that is completed already.
   */
  async atStateless(call: ToolCall): Promise<Outcome> {
    const { exchange, target } = call;
    const outcome = await this.#call(call, declaringTasks(toStateless(target.request, exchange.client)));
    if (outcome.kind === 'failure' || outcome.message.kind === 'error') return outcome;
    const created = createdTask(outcome.message);
    const record =
      created === null ? this.#mint(call, outcome.message) : this.#begin(call, outcome.message.era, created);
    const task = statefulView(record, this.#exposed(record, call));
    const meta = created === null ? null : ownMeta(outcome.message);
    const members = [Buffer.from('{"task":'), task, ...(meta === null ? [] : [Buffer.from(',"_meta":'), meta]), CLOSE];
    return answer(result('0', Buffer.concat(members), 'stateful'));
  }

  /** A stateless client that takes tasks calls a tool of a stateful server that can be had as a task only. */
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

  /** A task that its client does not know of: only the caller that waits for it keeps it. */
  #unlisted(call: ToolCall, era: Era, created: TaskReport): TaskRecord {
    const key = this.#parts.random.hex(16);
    return { ...newTask(call, era, created, this.#parts.ids), key, startedAt: 0, expiresAt: Number.POSITIVE_INFINITY };
  }

  /**
   * A tool that can be had as a task only, for a client that knows no tasks: the gateway starts the task, waits for its end
   * and gives the call its ordinary answer. When the call is given up, so is the task.
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
    const ended = await calls.relay(record, exchange, fetched, { ...UNRELATED, answered });
    return plainOutcome(await this.#settled(call, record, ended));
  }

  async awaitAtStateless(call: ToolCall): Promise<Outcome> {
    const { target, exchange } = call;
    const asked = declaringTasks(toStateless(target.request, exchange.client));
    return this.awaitEnd(call, await this.#parts.calls.begin(target, exchange, asked, {}));
  }

  /** The end of the task that a stateless server may have answered the call with. */
  async awaitEnd(call: ToolCall, outcome: Outcome): Promise<Outcome> {
    const { clock, waits, desired } = this.#parts;
    const created = createdIn(outcome);
    if (created === null) return outcome;
    const record = this.#unlisted(call, 'stateless', created);
    const until = clock.now() + desired.state.maxTimeoutMs;
    const ended = await waits.wait({ record, exchange: call.exchange, related: null, until });
    return this.#settled(call, record, ended);
  }

  /** A task without a waiting caller must not run on. */
  async #settled({ exchange }: ToolCall, record: TaskRecord, ended: Outcome): Promise<Outcome> {
    if (ended.kind !== 'failure') return (await this.#isLost(exchange, record, ended.message)) ? lost(record) : ended;
    void this.#parts.calls.own(record, exchange.client.principal, 'tasks/cancel');
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
    const outcome = await this.#parts.calls.own(record, client.principal, 'tasks/get');
    return heardIn(outcome) === null;
  }

  #call({ target, exchange, endpoint }: ToolCall, request: Message): Promise<Outcome> {
    const refused = this.#parts.table.refusal(exchange.client.principal.id);
    if (refused !== null) return Promise.resolve(failure(refused));
    const mappings = this.#parts.ids.mappings(target.server, exchange.client.principal, endpoint);
    return this.#parts.calls.begin(target, exchange, request, mappings);
  }

  #begin(call: ToolCall, era: Era, created: TaskReport): TaskRecord {
    const record = this.#parts.table.add(newTask(call, era, created, this.#parts.ids));
    this.#parts.following.follow(record, call.exchange.client.principal);
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
    const news = { description, answer: kept('result', era, body) };
    return table.add(newTask(call, null, { state, news }, this.#parts.ids));
  }

  #exposed(record: TaskRecord, { exchange, endpoint }: ToolCall): string {
    return this.#parts.ids.exposed(record, exchange.client.principal, endpoint);
  }
}

export function newTask(call: ToolCall, era: Era | null, { state, news }: TaskReport, ids: TaskIds): NewTask {
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
    description: news.description!,
    ttlMs: state.ttlMs,
    pollIntervalMs: state.pollIntervalMs,
    answer: news.answer ?? null,
  };
}

/** The request in stateful words, its answer wanted as a task. */
function askingForTask(request: Message): Message | GatewayError {
  if (request.era === 'stateless') {
    const { responses, state } = inputOf(request);
    // A stateful server never asked in this way; to run the call would be to begin it anew.
    if (responses !== null || state !== null)
      return new GatewayError('INVALID_PARAMS', 'params.requestState is not one that was given out here');
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
  return failure(
    new GatewayError('UNKNOWN', `${server} does not know the task any more that the call began`, { server }),
  );
}

/** Messages of a task whose client knows of none. */
const UNRELATED: Mappings = {
  emitted: (notification) => withRelatedTask(notification, null),
  asked: (question) => withRelatedTask(question, null),
};
