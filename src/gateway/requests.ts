import { declaredBy } from '../catalog/catalog-member.ts';
import { toolFacts } from '../catalog/exposed-items.ts';
import { CATALOGUE } from '../model/error-catalogue.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { answer, failure, type Outcome, replaceAnswer } from '../model/outcome.ts';
import type { Capability } from '../model/server-catalog.ts';
import { bodyField, errorCode } from '../protocol/body.ts';
import { field, isObject, stringValue } from '../protocol/fields.ts';
import { LISTEN, listMethod } from '../protocol/methods.ts';
import { resultToStateful } from '../protocol/stateful/to-stateful.ts';
import { isNotServing, knownOrListed } from './known-servers.ts';
import type { ListParts } from './list-parts.ts';
import type { Listens } from './listens.ts';
import { isResult, noCompletion, ownAnswer } from './own-results.ts';
import { namedParam } from './params.ts';
import { keptPrivate, seesLikeAll } from './policy/cache-scope.ts';
import type { Found, Resolver } from './resolve/resolver.ts';
import type { Subscriptions } from './subscriptions/subscriptions.ts';
import type { Target } from './target.ts';
import { mayBeTask, mayMissTask, missedTask, offersTasks } from './tasks/offers-tasks.ts';
import type { Tasks } from './tasks/tasks.ts';

interface RequestsDeps extends ListParts {
  readonly aggregate: Resolver;
  readonly single: Resolver;
  readonly subscriptions: Subscriptions;
  readonly listens: Listens;
  readonly tasks: Tasks;
}

/** Error codes of servers for a resource that they do not have. */
const ABSENT: ReadonlySet<number> = new Set([CATALOGUE.RESOURCE_NOT_FOUND.rpc, CATALOGUE.INVALID_PARAMS.rpc]);

/**
 * Runs all client requests (decision 064): the endpoint's resolver finds the target, the policies admit or refuse it, dispatch
 * sends it, and the answer gets the client's names.
 */
export class Requests {
  readonly #deps: RequestsDeps;

  constructor(deps: RequestsDeps) {
    this.#deps = deps;
  }

  resolverOf({ kind }: Endpoint): Resolver {
    return kind === 'aggregate' ? this.#deps.aggregate : this.#deps.single;
  }

  run(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const resolver = this.resolverOf(endpoint);
    const { request, client } = exchange;
    const refused = resolver.refusal(client.principal, endpoint);
    if (refused !== null) return Promise.resolve(failure(refused));
    switch (request.method) {
      case 'tools/call':
        return this.#found(resolver.named('tool', exchange, endpoint), exchange, endpoint);
      case 'prompts/get':
        return this.#found(resolver.named('prompt', exchange, endpoint), exchange, endpoint);
      case 'resources/read':
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return this.#found(resolver.resource(exchange, endpoint), exchange, endpoint);
      case 'completion/complete':
        return this.#complete(exchange, endpoint, resolver);
      case 'logging/setLevel':
        return resolver.setLevel(exchange, endpoint);
      case 'ping':
        // The gateway answers; supervisors check the health of servers.
        return Promise.resolve(ownAnswer(request.era, ''));
      case 'tasks/get':
      case 'tasks/result':
      case 'tasks/update':
      case 'tasks/cancel':
      case 'tasks/list':
        return this.#task(exchange, endpoint, resolver);
      default: {
        if (request.method === LISTEN) {
          // A session must not hold a call without a deadline; its revision has no such method.
          if (request.era === 'stateless') return this.#deps.listens.run(exchange, endpoint, resolver);
          return Promise.resolve(failure(new GatewayError('METHOD_NOT_FOUND', `Method not found: ${LISTEN}`)));
        }
        const list = listMethod(request.method);
        return list === null ? resolver.other(exchange, endpoint) : resolver.list(exchange, endpoint, list);
      }
    }
  }

  #found(found: Found<Target | readonly Target[]>, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    if (found instanceof Promise) return found.then((late) => this.#found(late, exchange, endpoint));
    if (found instanceof GatewayError) return Promise.resolve(failure(found));
    return isOne(found) ? this.#admit(found, exchange, endpoint) : this.#askInOrder(found, exchange, endpoint);
  }

  #admit(target: Target, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const refused = this.#deps.dispatch.admit(target, exchange);
    if (refused === null) return this.#send(target, exchange, endpoint);
    if (refused instanceof GatewayError) return Promise.resolve(failure(refused));
    return refused.then((late) => (late === null ? this.#send(target, exchange, endpoint) : failure(late)));
  }

  #send(target: Target, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { dispatch, cache, subscriptions } = this.#deps;
    switch (exchange.request.method) {
      case 'tools/call':
        return this.#outward(this.#callTool(target, exchange, endpoint), target, exchange, endpoint);
      case 'prompts/get':
        return this.#outward(dispatch.call(target, target.request, exchange), target, exchange, endpoint);
      case 'resources/read': {
        const read = this.#outward(cache.call(target, target.request, exchange), target, exchange, endpoint);
        return seesLikeAll(target.principal) ? read : read.then(keptPrivate);
      }
      case 'completion/complete':
        // The aggregate declares completions for all of its servers.
        if (endpoint.kind === 'aggregate' && !completes(target))
          return Promise.resolve(noCompletion(exchange.request.era));
        return dispatch.call(target, target.request, exchange);
      default:
        return subscriptions.run(target, exchange);
    }
  }

  #outward(outcome: Promise<Outcome>, target: Target, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const resolver = this.resolverOf(endpoint);
    return resolver.outward === undefined
      ? outcome
      : outcome.then((ended) => resolver.outward!(ended, target, exchange));
  }

  /** The catalog decides whether the call may become a task, and how its result is translated. */
  #callTool(target: Target, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { dispatch, tasks } = this.#deps;
    const { catalog } = target;
    if (catalog === null) {
      if (target.listed) {
        const called = dispatch.call(target, target.request, exchange);
        return called.then((ended) => this.#asListed(ended, target, exchange));
      }
      return mayBeTask(exchange)
        ? this.#callListed(target, exchange, endpoint)
        : this.#callUnknown(target, exchange, endpoint);
    }
    const { era } = catalog.handshake;
    const outcome = offersTasks(catalog)
      ? tasks.call(target, exchange, endpoint)
      : dispatch.call(target, target.request, exchange);
    if (exchange.request.era === 'stateless' || era === 'stateful') return outcome;
    const tool = target.definition;
    return tool === null ? outcome : toolResult(outcome, tool);
  }

  async #callListed(target: Target, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { dispatch } = this.#deps;
    if (!target.listed) await dispatch.listed(target, exchange);
    const refused = await dispatch.admit(target, exchange);
    return refused === null ? this.#callTool(target, exchange, endpoint) : failure(refused);
  }

  /**
   * Calls a tool of a server without a catalog here, as in the first call of a session from another node. A refusal may mean
   * that the tool requires a task: the server is listed, and the call is sent again if the list says so of this tool. Any other
   * call may have run, whatever it answered.
   */
  async #callUnknown(target: Target, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { dispatch } = this.#deps;
    const outcome = await dispatch.call(target, target.request, exchange);
    if (!mayMissTask(outcome) || exchange.cancelled !== null) return this.#asListed(outcome, target, exchange);
    await dispatch.listed(target, exchange);
    const { catalog } = target;
    if (catalog === null || exchange.cancelled !== null) return outcome;
    const missed = missedTask(outcome, exchange.request.era, catalog, target.definition);
    return missed ? this.#callListed(target, exchange, endpoint) : outcome;
  }

  /**
   * The answer of a server without a catalog here, in the form of the tool's schema: another node may have listed the tool to
   * this client. The call has run: its answer waits for the list for a short time only, and is returned as it is without one.
   */
  async #asListed(outcome: Outcome, target: Target, exchange: Exchange): Promise<Outcome> {
    if (exchange.request.era === 'stateless' || exchange.cancelled !== null) return outcome;
    if (!isResult(outcome) || !mayBeWrapped(outcome.message)) return outcome;
    target.learn(await knownOrListed(this.#deps.upstreams, target.server, exchange.client));
    const tool = target.definition;
    return tool === null ? outcome : toolResult(Promise.resolve(outcome), tool);
  }

  /** Completions for a prompt or template pass the same policies as the prompt or template itself. */
  #complete(exchange: Exchange, endpoint: Endpoint, resolver: Resolver): Promise<Outcome> {
    const { request } = exchange;
    const ref = bodyField(request, 'ref');
    const type = ref === null ? null : stringValue(request.bytes, field(request.bytes, ref.start, ref.end, 'type'));
    if (type === 'ref/prompt') return this.#found(resolver.named('prompt', exchange, endpoint), exchange, endpoint);
    if (type === 'ref/resource') return this.#found(resolver.named('template', exchange, endpoint), exchange, endpoint);
    if (endpoint.kind === 'server') return resolver.other(exchange, endpoint);
    const text = 'params.ref.type must be ref/prompt or ref/resource';
    return Promise.resolve(failure(new GatewayError('INVALID_PARAMS', text)));
  }

  /** The result of a task is a tool's result, so the resolver gives it the client's names too. */
  async #task(exchange: Exchange, endpoint: Endpoint, resolver: Resolver): Promise<Outcome> {
    const { tasks } = this.#deps;
    const { request, client } = exchange;
    const outcome = await tasks.run(exchange, endpoint);
    const ends = request.method === 'tasks/get' || request.method === 'tasks/result';
    const taskId = ends && resolver.outward !== undefined ? namedParam(request, 'taskId') : null;
    if (taskId === null || taskId instanceof GatewayError) return outcome;
    const route = tasks.ids.route(client.principal, taskId.value);
    if (route instanceof GatewayError) return outcome;
    return resolver.outward!(outcome, { server: route.server, name: '', exposed: null }, exchange);
  }

  /** Returns the first result; otherwise the first failure, the first error that is not in `ABSENT`, or the first answer. */
  async #askInOrder(targets: readonly Target[], exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { upstreams, subscriptions } = this.#deps;
    let worst: Outcome | null = null;
    let rank = -1;
    const unsubscribes = exchange.request.method === 'resources/unsubscribe';
    const subscribed = unsubscribes ? targets.filter((one) => subscriptions.has(exchange.client.sessionId, one)) : [];
    const asked = subscribed.length > 0 ? subscribed : targets;
    // Servers that are down are asked last, so that they do not delay the others.
    const down = Map.groupBy(asked, ({ server }) => isNotServing(upstreams, server, exchange.client));
    for (const target of [...(down.get(false) ?? []), ...(down.get(true) ?? [])]) {
      const outcome = await this.#admit(target, exchange, endpoint);
      if (isResult(outcome)) return outcome;
      if (exchange.cancelled !== null) return outcome;
      const weight = outcome.kind === 'failure' ? 2 : saysAbsent(outcome.message) ? 0 : 1;
      if (weight > rank) {
        worst = outcome;
        rank = weight;
      }
    }
    return worst!;
  }
}

function isOne(found: Target | readonly Target[]): found is Target {
  return !Array.isArray(found);
}

function completes({ catalog }: Target): boolean {
  return catalog !== null && declaredBy(catalog.handshake).completions;
}

function saysAbsent(error: Message): boolean {
  return ABSENT.has(errorCode(error));
}

/** Whether the wrapping of a tool result depends on the tool's schema: the edge wraps all that is no object. */
function mayBeWrapped(message: Message): boolean {
  const content = message.era === 'stateless' ? bodyField(message, 'structuredContent') : null;
  return content !== null && isObject(message.bytes, content);
}

/**
 * A stateless server's tool result for a stateful client. The edge cannot translate it, because the wrapping of structured
 * content depends on the tool's schema.
 */
function toolResult(outcome: Promise<Outcome>, tool: Capability): Promise<Outcome> {
  const { wrapped } = toolFacts(tool);
  return outcome.then((ended) => {
    if (!isResult(ended)) return ended;
    const translated = resultToStateful(ended.message, 'tools/call', wrapped, true);
    return answer(replaceAnswer(ended.message, translated, 'tools/call'));
  });
}
