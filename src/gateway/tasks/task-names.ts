import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Endpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { TaskRecord } from '../../model/ports.ts';
import { sees } from '../policy/access.ts';
import type { Mappings } from './relayed-exchange.ts';
import type { TaskIds, TaskRoute } from './task-ids.ts';
import type { TaskTable } from './task-table.ts';

/**
 * What clients call tasks: on the aggregate by sealed ids that carry the route, on a server's own endpoint by the
 * server's. Either way the table has the last word on whose a task is.
 */
export class TaskNames {
  readonly #ids: TaskIds;
  readonly #table: TaskTable;

  constructor(ids: TaskIds, table: TaskTable) {
    this.#ids = ids;
    this.#table = table;
  }

  exposed(record: Pick<TaskRecord, 'server' | 'taskId'>, principal: Principal, endpoint: Endpoint): string {
    return endpoint.kind === 'aggregate' ? this.#ids.exposed(principal, record) : record.taskId;
  }

  /** What a task that begins now is called on the aggregate, for as long as it is kept. */
  sealed(principal: Principal, route: TaskRoute): string {
    return this.#ids.exposed(principal, route);
  }

  /** null where this gateway does not know such a task, and its server may. */
  find(given: string, client: ClientProfile, endpoint: Endpoint): TaskRecord | GatewayError | null {
    const { kind, server } = endpoint;
    if (kind === 'server') {
      const own = this.#table.find(server, given, client);
      return own ?? (this.#table.knows(server, given) ? unknown() : null);
    }
    const route = this.#ids.route(client.principal, given);
    if (route instanceof GatewayError) return route;
    return this.#table.find(route.server, route.taskId, client) ?? unknown();
  }

  /** The principal's tasks that this endpoint is in front of. */
  *of(principal: Principal, { kind, server }: Endpoint): Generator<TaskRecord, void, undefined> {
    for (const record of this.#table.of(principal.id)) {
      if (kind === 'server' ? record.server === server : sees(principal, record.server)) yield record;
    }
  }

  /** The server's message in the client's names, and back. */
  outward(message: Message, server: string, principal: Principal, endpoint: Endpoint): Message {
    return endpoint.kind === 'aggregate' ? this.#ids.outward(message, server, principal) : message;
  }

  mappings(server: string, principal: Principal, endpoint: Endpoint): Mappings {
    if (endpoint.kind === 'server') return {};
    return {
      emitted: (notification) => this.#ids.outward(notification, server, principal),
      asked: (asked) => this.#ids.outward(asked, server, principal),
      answered: (answered) => this.#ids.inward(answered, server, principal),
    };
  }
}

export function unknown(): GatewayError {
  return new GatewayError('INVALID_PARAMS', 'params.taskId is not a task of this caller, or it has expired');
}
