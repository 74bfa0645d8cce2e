import type { Principal } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { Sealing } from '../../model/sealing.ts';
import { bodyField } from '../../protocol/body.ts';
import { fieldAt, type Range, stringValue } from '../../protocol/fields.ts';
import { RELATED_TASK_KEY } from '../../protocol/meta-keys.ts';
import { type Edit, spliceMessage } from '../../protocol/splice.ts';
import { refuseAccess } from '../policy/access.ts';

const RELATED = ['_meta', RELATED_TASK_KEY, 'taskId'] as const;

/** Where a task id can stand in a result, or in the params of a notification or request about a task. */
const PLACES: readonly (readonly string[])[] = [['taskId'], ['task', 'taskId'], RELATED];

export interface TaskRoute {
  readonly server: string;
  readonly taskId: string;
}

/** The tasks that are known, and what their ids were when they began. */
export interface KnownTaskIds {
  sealedId(principal: string, route: TaskRoute): string | null;
  routeOf(principal: string, sealedId: string): TaskRoute | null;
}

/**
 * Task ids of the aggregate carry their route: server and the server's own id, sealed for the principal who started
 * the task. Nobody else's, and nothing altered, opens. A task that is known keeps the id that it began with, so that
 * clients can compare ids and come back with them whichever key is in force by then.
 */
export class TaskIds {
  known: KnownTaskIds | null = null;
  readonly #sealing: Sealing;

  constructor(sealing: Sealing) {
    this.#sealing = sealing;
  }

  exposed(principal: Principal, route: TaskRoute): string {
    const known = this.known?.sealedId(principal.id, route) ?? null;
    return known ?? this.#sealing.seal(contextOf(principal), `${route.server}\0${route.taskId}`);
  }

  route(principal: Principal, sealed: string): TaskRoute | GatewayError {
    const route = this.#opened(principal, sealed) ?? this.known?.routeOf(principal.id, sealed) ?? null;
    if (route === null) return new GatewayError('INVALID_PARAMS', 'params.taskId is not a task of this caller');
    return refuseAccess(principal, route.server) ?? route;
  }

  /** The server's message with its own task ids in the sealed form. */
  outward(message: Message, server: string, principal: Principal): Message {
    return this.#rewrite(message, (taskId) => this.exposed(principal, { server, taskId }));
  }

  /** The client's message (an answer, or a request about a task) with the server's own ids. */
  inward(message: Message, server: string, principal: Principal): Message {
    return this.#rewrite(message, (sealed) => {
      const route = this.route(principal, sealed);
      return route instanceof GatewayError || route.server !== server ? sealed : route.taskId;
    });
  }

  #opened(principal: Principal, sealed: string): TaskRoute | null {
    const text = this.#sealing.open(contextOf(principal), sealed);
    const at = text === null ? -1 : text.indexOf('\0');
    return text === null || at < 0 ? null : { server: text.slice(0, at), taskId: text.slice(at + 1) };
  }

  #rewrite(message: Message, replace: (taskId: string) => string): Message {
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
}

/** Whether the request asks for its answer as a task (2025-11-25 utilities/tasks). */
export function asksForTask(request: Message): boolean {
  return bodyField(request, 'task') !== null;
}

/** Elsewhere a member `taskId` may be anything; the relation to a task has one place. */
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
