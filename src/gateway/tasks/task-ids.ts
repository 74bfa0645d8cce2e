import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Endpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { TaskRecord } from '../../model/ports.ts';
import type { Sealing } from '../../model/sealing.ts';
import type { TaskRoute } from '../../model/task-keys.ts';
import { bodyLexeme } from '../../protocol/body.ts';
import { fieldAt, type Range, stringValue } from '../../protocol/fields.ts';
import { RELATED_TASK_KEY } from '../../protocol/meta-keys.ts';
import { type Edit, spliceMessage } from '../../protocol/splice.ts';
import { refuseAccess, sees } from '../policy/access.ts';
import type { Mappings } from './task-calls.ts';
import type { TaskTable } from './task-table.ts';

const RELATED = ['_meta', RELATED_TASK_KEY, 'taskId'] as const;

/** Paths of a task id in a result, or in the params of a notification or request about a task. */
const PLACES: readonly (readonly string[])[] = [['taskId'], ['task', 'taskId'], RELATED];

/**
 * The ids by which clients know tasks. On a server's own endpoint these are the server's ids; on the aggregate they contain the
 * route (server and own id), sealed for the principal that started the task, so that no other principal's and no altered id
 * opens. A known task keeps the id that it began with, so that clients can compare ids, and use them after a change of keys. In
 * both cases the table decides who owns a task.
 */
export class TaskIds {
  readonly #sealing: Sealing;
  readonly #table: TaskTable;

  constructor(sealing: Sealing, table: TaskTable) {
    this.#sealing = sealing;
    this.#table = table;
  }

  exposed(route: TaskRoute, principal: Principal, { kind }: Endpoint): string {
    return kind === 'aggregate' ? this.sealed(route, principal) : route.taskId;
  }

  /** The task's id on the aggregate. */
  sealed(route: TaskRoute, principal: Principal): string {
    const known = this.#table.sealedId(principal.id, route);
    return known ?? this.#sealing.seal(contextOf(principal), `${route.server}\0${route.taskId}`);
  }

  route(principal: Principal, sealed: string): TaskRoute | GatewayError {
    const route = this.#opened(principal, sealed) ?? this.#table.routeOf(principal.id, sealed);
    if (route === null) return new GatewayError('INVALID_PARAMS', 'params.taskId is not a task of this caller');
    return refuseAccess(principal, route.server) ?? route;
  }

  /** The route of an id, whether or not the table has the task. */
  routeAt(given: string, { principal }: ClientProfile, { kind, server }: Endpoint): TaskRoute | GatewayError {
    return kind === 'server' ? { server, taskId: given } : this.route(principal, given);
  }

  /** The task; null if this gateway does not know it and its server may. */
  find(given: string, client: ClientProfile, { kind, server }: Endpoint): TaskRecord | GatewayError | null {
    if (kind === 'server') {
      const own = this.#table.find(server, given, client);
      return own ?? (this.#table.knows(server, given) ? unknown() : null);
    }
    const route = this.route(client.principal, given);
    if (route instanceof GatewayError) return route;
    return this.#table.find(route.server, route.taskId, client) ?? unknown();
  }

  /** The principal's tasks of this endpoint. */
  *of(principal: Principal, { kind, server }: Endpoint): Generator<TaskRecord, void, undefined> {
    for (const record of this.#table.of(principal.id)) {
      if (kind === 'server' ? record.server === server : sees(principal, record.server)) yield record;
    }
  }

  /** The server's message with the client's ids. */
  outward(message: Message, server: string, principal: Principal, { kind }: Endpoint): Message {
    if (kind === 'server') return message;
    return rewritten(message, (taskId) => this.sealed({ server, taskId }, principal));
  }

  /** The client's message (an answer, or a request about a task) with the server's own ids. */
  inward(message: Message, server: string, principal: Principal, { kind }: Endpoint): Message {
    if (kind === 'server') return message;
    return rewritten(message, (sealed) => {
      const route = this.route(principal, sealed);
      return route instanceof GatewayError || route.server !== server ? sealed : route.taskId;
    });
  }

  mappings(server: string, principal: Principal, endpoint: Endpoint): Mappings {
    const outward = (message: Message) => this.outward(message, server, principal, endpoint);
    const inward = (message: Message) => this.inward(message, server, principal, endpoint);
    return { emitted: outward, asked: outward, answered: inward };
  }

  #opened(principal: Principal, sealed: string): TaskRoute | null {
    const text = this.#sealing.open(contextOf(principal), sealed);
    const at = text === null ? -1 : text.indexOf('\0');
    return text === null || at < 0 ? null : { server: text.slice(0, at), taskId: text.slice(at + 1) };
  }
}

export function unknown(): GatewayError {
  return new GatewayError('INVALID_PARAMS', 'params.taskId is not a task of this caller, or it has expired');
}

/** Whether the request asks for its answer as a task (2025-11-25 utilities/tasks). */
export function asksForTask(request: Message): boolean {
  const task = bodyLexeme(request, 'task');
  return task !== null && task !== 'null';
}

function rewritten(message: Message, replace: (taskId: string) => string): Message {
  if (message.bodyStart < 0 || message.kind === 'error') return message;
  const edits: Edit[] = [];
  for (const path of isAboutTask(message) ? PLACES : [RELATED]) {
    const range = textAt(message, path);
    if (range === null) continue;
    const taskId = stringValue(message.bytes, range)!;
    const replaced = replace(taskId);
    if (replaced !== taskId) edits.push({ ...range, insert: JSON.stringify(replaced) });
  }
  return spliceMessage(message, edits);
}

/** In other messages a member `taskId` may mean anything; only the path of the related task is safe there. */
function isAboutTask({ kind, method }: Message): boolean {
  return kind === 'result' || method.startsWith('notifications/tasks');
}

function textAt(message: Message, path: readonly string[]): Range | null {
  const range = fieldAt(message.bytes, message.bodyStart, message.bodyEnd, path);
  return stringValue(message.bytes, range) === null ? null : range;
}

function contextOf(principal: Principal): string {
  return `task ${principal.id}`;
}
