import { toolFacts } from '../../catalog/exposed-items.ts';
import { chunks } from '../../model/chunks.ts';
import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { TaskRecord, TaskRecords } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import type { Sealing } from '../../model/sealing.ts';
import { isOwnProcess } from '../../model/server.ts';
import { isTerminal } from '../../model/task-status.ts';
import { relatedTask } from '../../protocol/body.ts';
import { notification, result } from '../../protocol/compose.ts';
import { declaresTasksExtension, isTasksRequiredError, taskSupport } from '../../protocol/tasks.ts';
import type { ListParts } from '../list-parts.ts';
import { cursorParam, foreignCursor, type NamedParam, namedParam } from '../params.ts';
import { sees } from '../policy/access.ts';
import type { Listen } from '../subscriptions/listen.ts';
import type { Target } from '../target.ts';
import { offersTasks } from './offers-tasks.ts';
import { ResultStreams } from './result-streams.ts';
import { starterOf, TaskCalls } from './task-calls.ts';
import { TaskCreation, type TaskParts, type ToolCall } from './task-creation.ts';
import { asksForTask, TaskIds, unknown } from './task-ids.ts';
import { TaskOversight } from './task-oversight.ts';
import { TaskRequests } from './task-requests.ts';
import { TaskStatusSubscriptions } from './task-status-subscriptions.ts';
import { type TaskEvents, TaskTable } from './task-table.ts';
import {
  awaitsStream,
  isSettled,
  missingExtension,
  parseTaskReport,
  statefulView,
  statelessView,
} from './task-views.ts';
import { TaskWaits } from './task-waits.ts';

const PAGE = 50;
const READ_AT_ONCE = 32;

interface TasksDeps extends ListParts {
  readonly random: Random;
  readonly records: TaskRecords;
  readonly sealing: Sealing;
  /** A task of the server has begun, changed or ended. */
  readonly changed: (server: string) => void;
}

/** Which tasks of a listen the gateway reports (`here`), and which their servers report (`there`). */
export interface ListenedTasks {
  /** By the client's names. */
  readonly here: readonly string[];
  readonly there: readonly { readonly server: string; readonly own: string; readonly exposed: string }[];
}

/**
 * Tasks of 2025-11-25, of the extension of 2026-07-28, and between the two (decision 017). Only the caller that started a task
 * sees it, on either kind of endpoint.
 */
export class Tasks implements TaskEvents {
  readonly ids: TaskIds;
  readonly oversight: TaskOversight;
  readonly #deps: TasksDeps;
  readonly #parts: TaskParts;
  readonly #creation: TaskCreation;
  readonly #requests: TaskRequests;
  #open = true;

  constructor(deps: TasksDeps) {
    const { dispatch, clock, random, desired } = deps;
    const table = new TaskTable({ clock, random, records: deps.records, events: this });
    const calls = new TaskCalls(dispatch);
    const ids = new TaskIds(deps.sealing, table);
    const streams = new ResultStreams({ dispatch, clock, random, table });
    const waits = new TaskWaits({ clock, random, table, calls });
    const statusSubscriptions = new TaskStatusSubscriptions(deps.sharedListens, table);
    this.ids = ids;
    this.#deps = deps;
    this.#parts = { clock, random, desired, table, ids, calls, waits, streams, statusSubscriptions };
    this.#creation = new TaskCreation(this.#parts);
    this.#requests = new TaskRequests(this.#parts);
    this.oversight = new TaskOversight(this.#parts);
  }

  /** A tool call to a server that declares tasks; its catalog is known. */
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
      return wanted ? this.#creation.atStateless(call) : this.#callOrAwaitTask(call);
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
    const listed = (anyKind: boolean) =>
      endpoint.kind === 'server' ? upstreams.knownCatalog(endpoint.server, client, anyKind) : null;
    const known = listed(false);
    // On its own endpoint, a server without tasks answers itself.
    if (known !== null && !offersTasks(known))
      return this.#deps.dispatch.callServer(endpoint.server, request, exchange);
    const stateful = request.era === 'stateful';
    if (stateful && request.method === 'tasks/list') {
      return Promise.resolve(this.#list(exchange, endpoint));
    }
    const taskId = namedParam(request, 'taskId');
    if (taskId instanceof GatewayError) return Promise.resolve(failure(taskId));
    if (!stateful && !declaresTasksExtension(client.capabilities)) return Promise.resolve(missingExtension());
    const find = () => this.ids.find(taskId.value, client, endpoint);
    const found = find();
    const { table } = this.#parts;
    const run = (record: ReturnType<typeof find>) =>
      this.#run(record, taskId, exchange, endpoint, listed(true) !== null);
    // Another session of the caller may have a task of this id, and that of this session may not be in memory.
    if ((isKnown(found) && found.sessionId === client.sessionId) || !table.shared) return run(found);
    const look = () => table.lookUp(find, isKnown);
    const onReadFailure = (error: GatewayError) => (isKnown(found) ? found : error);
    return this.#read(taskId.value, client, endpoint).then(look, onReadFailure).then(run);
  }

  /** Reads stored tasks of this id into memory. Rejects with GatewayError NOT_SENT. */
  async #read(taskId: string, client: ClientProfile, endpoint: Endpoint): Promise<void> {
    const route = this.ids.routeAt(taskId, client, endpoint);
    if (!(route instanceof GatewayError)) await this.#parts.table.read(route);
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
    this.#parts.statusSubscriptions.follow(record, client.principal);
    const release = this.#parts.table.keep(record.key);
    const outcome = this.#requests.run({ record, exchange, endpoint, taskId }).finally(release);
    if (request.era === 'stateless') return outcome;
    return outcome.then((ended) => this.#keepAnswer(ended, record, client.principal));
  }

  /** Records the status that a stateful server reported. `ServerEvents` forwards it to the session. */
  received(server: string, sessionId: string | null, key: string, message: Message): void {
    const report = parseTaskReport(message);
    if (report === null) return;
    for (const record of this.#parts.table.findOnSession(server, report.state.taskId, sessionId)) {
      if (this.#isOn(record, key)) this.#parts.table.update(record, report.update);
    }
  }

  /**
   * Passes a stateful server's request for a task, which came outside of its `tasks/result` stream, to that stream. Returns
   * null unless exactly one running task of clients without a session matches.
   */
  asked(server: string, key: string, message: Message): Promise<Message> | null {
    const taskId = relatedTask(message);
    if (taskId === null) return null;
    const records = this.#parts.table
      .findOnSession(server, taskId, null)
      .filter((record) => record.era === 'stateful' && !isTerminal(record.status) && this.#isOn(record, key));
    // Two tasks of one id on connections that cannot be distinguished: neither client is asked.
    if (records.length !== 1) return null;
    const [record] = records;
    return this.#parts.streams.open(record!, ownerOf(record!))?.ask(message) ?? null;
  }

  /** Watches the `taskIds` of a stateless client's listen that are the caller's. Rejects with GatewayError NOT_SENT. */
  async listen(listen: Listen, taskIds: readonly string[]): Promise<ListenedTasks> {
    const { client, endpoint } = listen;
    const here: string[] = [];
    const there: ListenedTasks['there'][number][] = [];
    const find = (taskId: string) => this.ids.find(taskId, client, endpoint);
    const missing = taskIds.filter((taskId) => !isKnown(find(taskId)));
    for (const some of chunks(missing, READ_AT_ONCE)) {
      await Promise.all(some.map((taskId) => this.#read(taskId, client, endpoint)));
    }
    for (const taskId of taskIds) {
      const record = find(taskId);
      if (!isKnown(record)) continue;
      if (record.era === 'stateless') {
        there.push({ server: record.server, own: record.taskId, exposed: taskId });
      } else {
        here.push(taskId);
        listen.onEnd(this.#parts.table.watch(record.key, (now) => void this.#notify(listen, now, taskId)));
      }
    }
    return { here, there };
  }

  sessionEnded(sessionId: string): void {
    this.#parts.statusSubscriptions.sessionEnded(sessionId);
    this.#parts.table.sessionEnded(sessionId);
  }

  close(): void {
    this.#open = false;
    this.#parts.table.close();
    this.#parts.statusSubscriptions.close();
    this.#parts.streams.closeAll();
  }

  /**
   * A stateless server may refuse a client without tasks; the call is then sent again as of one with tasks. It may also begin a
   * task if a stateful client declares the extension, which means nothing in its revision.
   */
  async #callOrAwaitTask(call: ToolCall): Promise<Outcome> {
    const { target, exchange } = call;
    const outcome = await this.#deps.dispatch.call(target, target.request, exchange);
    if (outcome.kind === 'failure' || exchange.cancelled !== null) return outcome;
    if (isTasksRequiredError(outcome.message)) return this.#creation.awaitAtStateless(call);
    return this.#creation.awaitEnd(call, outcome);
  }

  /** A process on this machine loses its tasks when it ends, so their answers are fetched while it runs. */
  #keepAnswer(outcome: Outcome, { key }: TaskRecord, principal: Principal): Outcome {
    const record = this.#parts.table.get(key);
    if (record === null || record.era !== 'stateful' || !isTerminal(record.status) || isSettled(record)) return outcome;
    const server = this.#deps.upstreams.servers().find(({ name }) => name === record.server);
    if (server !== undefined && isOwnProcess(server)) this.#parts.streams.open(record, principal);
    return outcome;
  }

  changed(record: TaskRecord, before: TaskRecord): void {
    if (!this.#open) return;
    if (isTerminal(record.status)) this.ended(record);
    else this.#deps.changed(record.server);
    const { sessionId, era } = record;
    if (era !== 'stateless' || sessionId === null || record.status === before.status) return;
    const seen = this.#deps.sessions.get(sessionId);
    const principal = seen?.client.principal;
    if (seen === null || principal?.id !== record.principal || !sees(principal, record.server)) return;
    const params = statefulView(record, this.ids.exposed(record, principal, seen.endpoint));
    this.#deps.streams.deliver(sessionId, notification('notifications/tasks/status', params, 'stateful'));
  }

  started(record: TaskRecord): void {
    this.#deps.changed(record.server);
  }

  ended(record: TaskRecord): void {
    if (this.#open) this.#deps.changed(record.server);
    this.#parts.waits.forget(record);
    this.#parts.statusSubscriptions.end(record);
  }

  /**
   * `tasks/list`, from the table and of the caller only (2025-11-25 utilities/tasks §Task Isolation): servers cannot
   * distinguish the gateway's callers. Cursors are sealed for the caller and the endpoint.
   */
  #list({ request, client: { principal } }: Exchange, endpoint: Endpoint): Outcome {
    const { sealing } = this.#deps;
    const context = `tasks ${principal.id} ${endpoint.path}`;
    const cursor = cursorParam(request);
    if (cursor instanceof GatewayError) return failure(cursor);
    const after = cursor === null ? null : sealing.open(context, cursor);
    if (cursor !== null && after === null) {
      return failure(foreignCursor());
    }
    const left = [...this.ids.of(principal, endpoint)].filter((record) => after === null || placeOf(record) > after);
    left.sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
    const shown = left.slice(0, PAGE);
    const tasks = shown.map((record) => statefulView(record, this.ids.exposed(record, principal, endpoint)).toString());
    const more = left.length > PAGE;
    const next = more ? `,"nextCursor":${JSON.stringify(sealing.seal(context, placeOf(shown.at(-1)!)))}` : '';
    return answer(result('0', `{"tasks":[${tasks.join(',')}]${next}}`, 'stateful'));
  }

  /** Sends a stateless client the status of a stateful server's task. */
  async #notify(listen: Listen, changedRecord: TaskRecord, taskId: string): Promise<void> {
    let record = changedRecord;
    if (awaitsStream(record) && record.era === 'stateful')
      record = await this.#parts.streams.awaitUpdate(record, listen.client.principal);
    const questions = this.#parts.streams.of(record)?.questions ?? null;
    listen.send(notification('notifications/tasks', statelessView(record, taskId, questions, ''), 'stateless'));
  }

  #isOn(record: TaskRecord, key: string): boolean {
    if (record.sessionId !== null) return true;
    return this.#deps.upstreams.sessionKey(record.server, starterOf(record, ownerOf(record))) === key;
  }
}

function isKnown(found: TaskRecord | GatewayError | null): found is TaskRecord {
  return found !== null && !(found instanceof GatewayError);
}

/** The place of the task in the list, valid even after the task is deleted. */
function placeOf({ startedAt, key }: TaskRecord): string {
  return `${String(Math.floor(startedAt)).padStart(16, '0')} ${key}`;
}

/** The principal that started the task, only to find its connections: `servers` does not state its rights. */
function ownerOf({ principal }: TaskRecord): Principal {
  return { id: principal, name: principal.replace(/^agent:/, ''), servers: null };
}
