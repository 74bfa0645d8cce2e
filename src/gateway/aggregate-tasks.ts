import { takesTasks } from '../catalog/catalog-member.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../model/outcome.ts';
import type { Upstreams } from '../model/ports.ts';
import { namedParam, withParam } from './params.ts';
import { RelayedExchange } from './relayed-exchange.ts';
import { asksForTask, type TaskIds } from './task-ids.ts';

/**
 * Tasks on the aggregate: their ids lead to the server they run on, in requests about them, in what these answer, and
 * in what the server says or asks while they run.
 */
export class AggregateTasks {
  readonly #upstreams: Upstreams;
  readonly #ids: TaskIds;

  constructor(upstreams: Upstreams, ids: TaskIds) {
    this.#upstreams = upstreams;
    this.#ids = ids;
  }

  /** `tasks/get`, `tasks/result`, `tasks/update`, `tasks/cancel`. */
  run(exchange: Exchange): Promise<Outcome> {
    const { request, client } = exchange;
    const taskId = namedParam(request, 'taskId');
    if (taskId instanceof GatewayError) return Promise.resolve(failure(taskId));
    const route = this.#ids.route(client.principal, taskId.value);
    if (route instanceof GatewayError) return Promise.resolve(failure(route));
    return this.#call(route.server, withParam(request, taskId, route.taskId), exchange);
  }

  /** A tool call to a server with tasks. */
  call(server: string, request: Exchange['request'], exchange: Exchange): Promise<Outcome> {
    const possible = request.era === 'stateful' ? asksForTask(request) : takesTasks(exchange.client.capabilities);
    return possible ? this.#call(server, request, exchange) : this.#upstreams.call(server, request, exchange);
  }

  async #call(server: string, request: Exchange['request'], exchange: Exchange): Promise<Outcome> {
    const { principal } = exchange.client;
    const relayed = new RelayedExchange(exchange, request, {
      emitted: (notification) => this.#ids.outward(notification, server, principal),
      asked: (asked) => this.#ids.outward(asked, server, principal),
      answered: (answered) => this.#ids.inward(answered, server, principal),
    });
    const outcome = await this.#upstreams.call(server, request, relayed);
    return outcome.kind === 'answer' ? answer(this.#ids.outward(outcome.message, server, principal)) : outcome;
  }
}
