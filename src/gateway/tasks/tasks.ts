import { toolFacts } from '../../catalog/exposed-items.ts';
import type { Principal } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { ClientStreams, TaskRecord, TaskRecords } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import type { Sealing } from '../../model/sealing.ts';
import { isOwnProcess } from '../../model/server.ts';
import { isTerminal } from '../../model/task-status.ts';
import { relatedTask } from '../../protocol/body.ts';
import { notification } from '../../protocol/compose.ts';
import { declaresTasksExtension, missesTasks, taskSupport } from '../../protocol/tasks/extension.ts';
import type { Dispatch } from '../dispatch/dispatch.ts';
import type { KnownServers } from '../known-servers.ts';
import { type NamedParam, namedParam } from '../params.ts';
import { sees } from '../policy/access.ts';
import type { SharedListens } from '../subscriptions/shared-listens.ts';
import type { Target } from '../target.ts';
import { offersTasks } from './offers-tasks.ts';
import { ResultStreams } from './result-streams.ts';
import { isSettled, missingExtension, statefulView } from './task-answers.ts';
import { starterOf, TaskCalls } from './task-calls.ts';
import { TaskCreation, type ToolCall } from './task-creation.ts';
import { TaskFollowing } from './task-following.ts';
import { asksForTask, type TaskIds } from './task-ids.ts';
import { TaskInputs } from './task-inputs.ts';
import { listTasks } from './task-list.ts';
import { TaskListens } from './task-listens.ts';
import { TaskNames, unknown } from './task-names.ts';
import { heardTask } from './task-news.ts';
import { TaskPolling } from './task-polling.ts';
import { TaskRequests } from './task-requests.ts';
import { TaskTable } from './task-table.ts';

export interface TasksDeps {
  readonly upstreams: KnownServers;
  readonly dispatch: Dispatch;
  readonly streams: ClientStreams;
  readonly sharedListens: SharedListens;
  readonly clock: Clock;
  readonly random: Random;
  readonly records: TaskRecords;
  readonly ids: TaskIds;
  readonly sealing: Sealing;
  /** The upper bound of any call. */
  readonly maxTimeoutMs: () => number;
  /** The endpoint that the session was opened on; null for a session that has not spoken yet. */
  readonly seen: (sessionId: string) => { readonly endpoint: Endpoint; readonly principal: Principal } | null;
}

/**
 * Tasks of 2025-11-25, of the extension of 2026-07-28, and between the two (decision 017). Only the caller that started a task
 * sees it, on either kind of endpoint.
 */
export class Tasks {
  readonly listens: TaskListens;
  readonly #deps: TasksDeps;
  readonly #table: TaskTable;
  readonly #names: TaskNames;
  readonly #streams: ResultStreams;
  readonly #polling: TaskPolling;
  readonly #following: TaskFollowing;
  readonly #creation: TaskCreation;
  readonly #requests: TaskRequests;

  constructor(deps: TasksDeps) {
    const { dispatch, sharedListens, clock, random, ids, records, maxTimeoutMs } = deps;
    const table = new TaskTable({ clock, random, records });
    ids.known = table;
    const names = new TaskNames(ids, table);
    const calls = new TaskCalls(dispatch);
    const inputs = new TaskInputs(calls, random);
    const streams = new ResultStreams({ dispatch, clock, random, table });
    const polling = new TaskPolling({ clock, random, table, calls, inputs });
    this.#deps = deps;
    this.#table = table;
    this.#names = names;
    this.#streams = streams;
    this.#polling = polling;
    const following = new TaskFollowing({ sharedListens, clock, table });
    this.#following = following;
    this.#creation = new TaskCreation({ clock, random, table, names, calls, polling, following, maxTimeoutMs });
    this.#requests = new TaskRequests({ clock, table, names, calls, streams, polling });
    this.listens = new TaskListens({ table, names, streams });
    table.changed = (record, before) => this.#changed(record, before);
    table.ended = (record) => this.#ended(record);
  }

  /** A tool call to a server that declares tasks; its catalogue is known. */
  call(target: Target, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { dispatch } = this.#deps;
    const { request, definition: tool } = target;
    const { era } = target.catalog!.handshake;
    const call = { target, exchange, endpoint, wraps: tool !== null && toolFacts(tool).wrapped };
    const required = tool !== null && taskSupport(tool.bytes) === 'required';
    if (exchange.request.era === 'stateful') {
      const wanted = asksForTask(exchange.request);
      if (era === 'stateful') {
        if (wanted) return this.#creation.relay(call);
        return required ? this.#creation.awaitAtStateful(call) : dispatch.call(target, request, exchange);
      }
      return wanted ? this.#creation.atStateless(call) : this.#unlessMissed(call);
    }
    const takes = declaresTasksExtension(exchange.client.capabilities);
    if (era === 'stateless') {
      return takes ? this.#creation.relay(call) : dispatch.call(target, request, exchange);
    }
    if (!required) return dispatch.call(target, request, exchange);
    return takes ? this.#creation.atStateful(call) : this.#creation.awaitAtStateful(call);
  }

  /** `tasks/get`, `tasks/result`, `tasks/update`, `tasks/cancel` and `tasks/list`. */
  run(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { request, client } = exchange;
    const { upstreams } = this.#deps;
    const known = endpoint.kind === 'server' ? upstreams.knownCatalog(endpoint.server, client) : null;
    // On its own endpoint a server without tasks says so itself.
    if (known !== null && !offersTasks(known))
      return this.#deps.dispatch.callServer(endpoint.server, request, exchange);
    const stateful = request.era === 'stateful';
    if (stateful && request.method === 'tasks/list') {
      return Promise.resolve(listTasks(exchange, endpoint, this.#names, this.#deps.sealing));
    }
    const taskId = namedParam(request, 'taskId');
    if (taskId instanceof GatewayError) return Promise.resolve(failure(taskId));
    if (!stateful && !declaresTasksExtension(client.capabilities)) return Promise.resolve(missingExtension());
    const find = () => this.#names.find(taskId.value, client, endpoint);
    const found = find();
    const run = (record: ReturnType<typeof find>) => this.#run(record, taskId, exchange, endpoint, known !== null);
    return isKnown(found) || !this.#table.shared ? run(found) : this.#table.lookUp(find, isKnown).then(run);
  }

  #run(
    record: TaskRecord | GatewayError | null,
    taskId: NamedParam,
    exchange: Exchange,
    endpoint: Endpoint,
    listed: boolean,
  ): Promise<Outcome> {
    const { request, client } = exchange;
    if (record instanceof GatewayError) return Promise.resolve(failure(record));
    if (record === null) {
      if (listed) return Promise.resolve(failure(unknown()));
      return this.#deps.dispatch.callServer(endpoint.server, request, exchange);
    }
    this.#following.follow(record, client.principal);
    const asked = { record, exchange, endpoint, taskId };
    const outcome = this.#requests.run(asked);
    if (request.era === 'stateless') return outcome;
    return outcome.then((ended) => this.#keepAnswer(ended, record, client.principal));
  }

  /** A stateful server reported a task. What its own session gets of that is not decided here. */
  heard(server: string, sessionId: string | null, key: string, message: Message): void {
    const heard = heardTask(message);
    if (heard === null) return;
    for (const record of this.#table.heardOn(server, heard.state.taskId, sessionId)) {
      if (this.#isOn(record, key)) this.#table.update(record, heard.news);
    }
  }

  /**
   * A stateful server asked something for a task outside of its `tasks/result` stream; null where the task's client is not asked
   * by input requests in the task.
   */
  asked(server: string, key: string, message: Message): Promise<Message> | null {
    const taskId = relatedTask(message);
    if (taskId === null) return null;
    const records = this.#table
      .heardOn(server, taskId, null)
      .filter((record) => record.era === 'stateful' && !isTerminal(record.status) && this.#isOn(record, key));
    // Two tasks of one id on connections that cannot be distinguished: neither is asked.
    if (records.length !== 1) return null;
    const [record] = records;
    return this.#streams.open(record!, ownerOf(record!))?.ask(message) ?? null;
  }

  sessionEnded(sessionId: string): void {
    this.#table.sessionEnded(sessionId);
  }

  close(): void {
    this.#table.changed = null;
    this.#table.close();
    this.#following.close();
    this.#streams.closeAll();
  }

  /**
   * A stateless server may refuse a client that takes no tasks; it is then asked again as one that does. It may also
   * begin one for a stateful client that names the extension, which means nothing in its revision.
   */
  async #unlessMissed(call: ToolCall): Promise<Outcome> {
    const { target, exchange } = call;
    const outcome = await this.#deps.dispatch.call(target, target.request, exchange);
    if (outcome.kind === 'failure' || exchange.cancelled !== null) return outcome;
    if (missesTasks(outcome.message)) return this.#creation.awaitAtStateless(call);
    return this.#creation.awaitEnd(call, outcome);
  }

  /** A process of this machine takes its tasks along when it ends: their answers are fetched while it is there. */
  #keepAnswer(outcome: Outcome, { key }: TaskRecord, principal: Principal): Outcome {
    const record = this.#table.get(key);
    if (record === null || record.era !== 'stateful' || !isTerminal(record.status) || isSettled(record)) return outcome;
    const server = this.#deps.upstreams.servers().find(({ name }) => name === record.server);
    if (server !== undefined && isOwnProcess(server)) this.#streams.open(record, principal);
    return outcome;
  }

  #changed(record: TaskRecord, before: TaskRecord): void {
    if (isTerminal(record.status)) this.#ended(record);
    const { sessionId, era } = record;
    if (era !== 'stateless' || sessionId === null || record.status === before.status) return;
    const seen = this.#deps.seen(sessionId);
    if (seen === null || seen.principal.id !== record.principal || !sees(seen.principal, record.server)) return;
    const exposed = this.#names.exposed(record, seen.principal, seen.endpoint);
    const params = statefulView(record, exposed);
    this.#deps.streams.deliver(sessionId, notification('notifications/tasks/status', params, 'stateful'));
  }

  #ended(record: TaskRecord): void {
    this.#polling.forget(record);
    this.#following.end(record);
  }

  #isOn(record: TaskRecord, key: string): boolean {
    if (record.sessionId !== null) return true;
    return this.#deps.upstreams.sessionKey(record.server, starterOf(record, ownerOf(record))) === key;
  }
}

function isKnown(found: TaskRecord | GatewayError | null): boolean {
  return found !== null && !(found instanceof GatewayError);
}

/** The starter of the task, to find its connections; this says nothing of rights. */
function ownerOf({ principal }: TaskRecord): Principal {
  return { id: principal, name: principal.replace(/^agent:/, ''), servers: null };
}
