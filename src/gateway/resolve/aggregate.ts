import type { Catalog } from '../../catalog/catalog.ts';
import type { Target } from '../../catalog/name-table.ts';
import { AGGREGATE, type Exchange } from '../../model/exchange.ts';
import { calledOff, GatewayError } from '../../model/gateway-error.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { Capability } from '../../model/server-catalog.ts';
import { bodyField } from '../../protocol/body.ts';
import { field, stringValue } from '../../protocol/fields.ts';
import { listMethod } from '../../protocol/methods.ts';
import type { Dispatch, KnownServers } from '../dispatch/dispatch.ts';
import type { Drift } from '../drift/drift.ts';
import type { AggregateLists } from '../lists/aggregate-lists.ts';
import type { Catalogs } from '../lists/catalogs.ts';
import { noCompletion, ownAnswer } from '../own-results.ts';
import { type NamedParam, namedParam, withParam } from '../params.ts';
import { refuseParamHeaders } from '../policy/param-headers.ts';
import { blocked } from '../policy/withheld.ts';
import type { ServerIndex } from '../server-index.ts';
import type { TaskIds } from '../tasks/task-ids.ts';
import type { Tasks } from '../tasks/tasks.ts';
import type { AggregateExtensions } from './aggregate-extensions.ts';
import type { AggregateResources } from './aggregate-resources.ts';
import { exposedResult } from './exposed-result.ts';
import type { LogLevels } from './log-levels.ts';
import { toolResult } from './tool-results.ts';
import { spelledTool, unknownTool, unlistedServer, withheldPrompt } from './unknown-tool.ts';

export interface AggregateDeps {
  readonly upstreams: KnownServers;
  readonly dispatch: Dispatch;
  readonly catalogs: Catalogs;
  readonly lists: AggregateLists;
  readonly resources: AggregateResources;
  readonly extensions: AggregateExtensions;
  readonly tasks: Tasks;
  readonly taskIds: TaskIds;
  readonly logLevels: LogLevels;
  readonly servers: ServerIndex;
  readonly drift: Drift | null;
  readonly firstListWaitMs: () => number;
}

/**
 * The endpoint in front of all servers: finds the server that a request means, puts that server's own name in, and
 * passes it on; everything else of the request stays as it came. The catalogue holds only servers the caller may
 * use, so what is found in it is allowed.
 */
export class Aggregate {
  readonly #deps: AggregateDeps;

  constructor(deps: AggregateDeps) {
    this.#deps = deps;
  }

  run(exchange: Exchange): Promise<Outcome> {
    const { method, era } = exchange.request;
    switch (method) {
      case 'tools/call':
        return this.#callTool(exchange);
      case 'prompts/get':
        return this.#getPrompt(exchange);
      case 'resources/read':
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return this.#deps.resources.run(exchange);
      case 'completion/complete':
        return this.#complete(exchange);
      case 'logging/setLevel':
        return this.#deps.logLevels.set(exchange);
      case 'ping':
        return Promise.resolve(ownAnswer(era, ''));
      case 'tasks/get':
      case 'tasks/result':
        return this.#taskResult(exchange);
      case 'tasks/update':
      case 'tasks/cancel':
      case 'tasks/list':
        return this.#deps.tasks.run(exchange, AGGREGATE);
      default: {
        const list = listMethod(method);
        return list === null ? this.#deps.extensions.run(exchange) : this.#deps.lists.list(exchange, list.kind);
      }
    }
  }

  #callTool(exchange: Exchange): Promise<Outcome> {
    const name = namedParam(exchange.request, 'name');
    if (name instanceof GatewayError) return Promise.resolve(failure(name));
    const catalog = this.#deps.catalogs.of(exchange.client);
    const target = catalog.tool(name.value);
    if (target === null) return this.#callUnlisted(exchange, name.value, catalog);
    return this.#callTarget(exchange, catalog, target, name);
  }

  #callTarget(exchange: Exchange, catalog: Catalog, target: Target, name: NamedParam): Promise<Outcome> {
    const refused = refuseParamHeaders(target.item, exchange);
    if (refused !== null) return Promise.resolve(failure(refused));
    const outcome = this.#send(
      exchange,
      catalog,
      target.server,
      withParam(exchange.request, name, target.name),
      target.item,
    );
    const result = toolResult(outcome, exchange.request, catalog.eraOf(target.server), target.item);
    return result.then((ended) => exposedResult(ended, target.server, catalog, 'tools/call'));
  }

  /** What a task ended with is a tool's result. */
  async #taskResult(exchange: Exchange): Promise<Outcome> {
    const { request, client } = exchange;
    const outcome = await this.#deps.tasks.run(exchange, AGGREGATE);
    const taskId = namedParam(request, 'taskId');
    if (taskId instanceof GatewayError) return outcome;
    const route = this.#deps.taskIds.route(client.principal, taskId.value);
    if (route instanceof GatewayError) return outcome;
    return exposedResult(outcome, route.server, this.#deps.catalogs.of(client), request.method);
  }

  /** A name that no table knows: it may be of a server that was not listed yet, else the caller gets the reason. */
  async #callUnlisted(exchange: Exchange, name: string, before: Catalog): Promise<Outcome> {
    const { client, request } = exchange;
    let catalog = before;
    const named = unlistedServer(name, catalog, client.principal);
    if (named instanceof GatewayError) return failure(named);
    if (!catalog.complete && (named !== null || !name.includes('__'))) {
      catalog = await this.#deps.catalogs.ready(client, this.#deps.firstListWaitMs());
      const target = catalog.tool(name);
      const param = namedParam(request, 'name');
      if (param instanceof GatewayError) return failure(param);
      if (target !== null) return this.#callTarget(exchange, catalog, target, param);
      // Still nothing known of the server: the call itself finds out, and says why if it cannot be made.
      const still = unlistedServer(name, catalog, client.principal);
      if (still !== null && !(still instanceof GatewayError)) {
        // It is unknown whether the definition is approved.
        const guards = this.#deps.drift?.guards;
        if (guards?.isBlocked(still.server, 'tools', still.tool) === true) {
          return failure(blocked(still.server, 'tools', still.tool));
        }
        if (guards?.isClosed(still.server) === true) {
          return failure(this.#deps.servers.unavailable(still.server));
        }
        const outcome = await this.#send(exchange, catalog, still.server, withParam(request, param, still.tool), null);
        return exposedResult(outcome, still.server, this.#deps.catalogs.of(client), 'tools/call');
      }
    }
    return this.#callHeardMeanwhile(exchange, name, unknownTool(name, catalog));
  }

  async #callHeardMeanwhile(exchange: Exchange, name: string, unknown: GatewayError): Promise<Outcome> {
    if (unknown.data.server === undefined) return failure(unknown);
    const catalog = await this.#heardMeanwhile(exchange, 'tools', name);
    if (exchange.cancelled !== null) return failure(calledOff(unknown.data.server, exchange.cancelled));
    if (catalog === null) return failure(unknown);
    const target = catalog.tool(name);
    const param = namedParam(exchange.request, 'name');
    if (target === null || param instanceof GatewayError) return failure(unknownTool(name, catalog));
    return this.#callTarget(exchange, catalog, target, param);
  }

  /** The client may have had the name from the server itself, or from another node, before this one knows it. null: it is unknown. */
  async #heardMeanwhile(exchange: Exchange, list: 'tools' | 'prompts', name: string): Promise<Catalog | null> {
    const { upstreams, catalogs } = this.#deps;
    const { client } = exchange;
    const before = catalogs.of(client);
    const own = spelledTool(name, before);
    if (own === null || !before.members.some(({ server }) => server === own.server)) return null;
    return (await upstreams.foundMeanwhile?.(own.server, exchange, list, own.tool)) === true
      ? catalogs.of(client)
      : null;
  }

  #send(
    exchange: Exchange,
    catalog: Catalog,
    server: string,
    request: Exchange['request'],
    tool: Capability | null,
  ): Promise<Outcome> {
    const era = catalog.eraOf(server);
    if (era !== undefined && catalog.declared.get(server)?.tasks === true) {
      return this.#deps.tasks.call({ server, request, exchange, endpoint: AGGREGATE, era, tool });
    }
    return this.#deps.dispatch.call(server, request, exchange);
  }

  #getPrompt(exchange: Exchange): Promise<Outcome> {
    const name = namedParam(exchange.request, 'name');
    if (name instanceof GatewayError) return Promise.resolve(failure(name));
    return this.#withPrompt(exchange, name.value, async ({ server, name: own }) => {
      const outcome = await this.#deps.dispatch.call(server, withParam(exchange.request, name, own), exchange);
      return exposedResult(outcome, server, this.#deps.catalogs.of(exchange.client), 'prompts/get');
    });
  }

  async #withPrompt(exchange: Exchange, name: string, use: (target: Target) => Promise<Outcome>): Promise<Outcome> {
    const { client } = exchange;
    let catalog = this.#deps.catalogs.of(client);
    if (catalog.prompt(name) === null && !catalog.complete) {
      catalog = await this.#deps.catalogs.ready(client, this.#deps.firstListWaitMs());
    }
    const target = catalog.prompt(name);
    if (target !== null) return use(target);
    const withheld = withheldPrompt(name, catalog);
    if (withheld !== null) return failure(withheld);
    const heard = (await this.#heardMeanwhile(exchange, 'prompts', name))?.prompt(name) ?? null;
    if (heard !== null && exchange.cancelled !== null) return failure(calledOff(heard.server, exchange.cancelled));
    if (heard !== null) return use(heard);
    const choices = catalog.choices('prompts', name);
    const hint = choices.length > 1 ? ` (it could be ${choices.join(', ')})` : '';
    return failure(new GatewayError('INVALID_PARAMS', `Unknown prompt: ${name}${hint}`));
  }

  async #complete(exchange: Exchange): Promise<Outcome> {
    const { request, client } = exchange;
    const { bytes } = request;
    const ref = bodyField(request, 'ref');
    const type = ref === null ? null : stringValue(bytes, field(bytes, ref.start, ref.end, 'type'));
    if (type === 'ref/resource') return this.#deps.resources.complete(exchange);
    if (type !== 'ref/prompt') {
      return failure(new GatewayError('INVALID_PARAMS', 'params.ref.type must be ref/prompt or ref/resource'));
    }
    const name = namedParam(request, 'name', 'ref');
    if (name instanceof GatewayError) return failure(name);
    return this.#withPrompt(exchange, name.value, (target) => {
      const { declared } = this.#deps.catalogs.of(client);
      if (declared.get(target.server)?.completions !== true) return Promise.resolve(noCompletion(request.era));
      return this.#deps.dispatch.call(target.server, withParam(request, name, target.name), exchange);
    });
  }
}
