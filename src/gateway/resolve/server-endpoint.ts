import { filterAllows, filtersAny } from '../../catalog/catalog-member.ts';
import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import { type Exchange, serverEndpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import type { Capability, ServerCatalog } from '../../model/server-catalog.ts';
import { bodyField } from '../../protocol/body.ts';
import { cacheHints } from '../../protocol/cache-hints.ts';
import { field, stringValue } from '../../protocol/fields.ts';
import { handshakeIsStale, handshakeTtlMs, listIsStale } from '../../protocol/list-freshness.ts';
import { soundPage } from '../../protocol/list-page.ts';
import { type ListMethod, listMethod } from '../../protocol/methods.ts';
import { spliceMessage } from '../../protocol/splice.ts';
import type { AnswerCache } from '../cache/answer-cache.ts';
import type { Dispatch, KnownServers } from '../dispatch/dispatch.ts';
import type { Drift } from '../drift/drift.ts';
import type { HandshakeView } from '../handshake-view.ts';
import { filterTools, knownPage, withoutMisdeclared } from '../lists/server-pages.ts';
import { ownAnswer } from '../own-results.ts';
import { type NamedParam, namedParam } from '../params.ts';
import { keptPrivate, seesLikeAll } from '../policy/cache-scope.ts';
import { refuseParamHeaders } from '../policy/param-headers.ts';
import { blocked, hidesTemplate, refuseUnapproved } from '../policy/withheld.ts';
import { isDown, isStarted, noServer, type ServerIndex } from '../server-index.ts';
import type { Subscriptions } from '../subscriptions/subscriptions.ts';
import { mayBeTask, mayMissTask, missedTask, offersTasks, withTaskSupport } from '../tasks/offers-tasks.ts';
import type { Tasks } from '../tasks/tasks.ts';
import type { LogLevels } from './log-levels.ts';
import { toolResult } from './tool-results.ts';

export interface ServerEndpointDeps {
  readonly upstreams: KnownServers;
  readonly dispatch: Dispatch;
  readonly cache: AnswerCache;
  readonly servers: ServerIndex;
  readonly subscriptions: Subscriptions;
  readonly tasks: Tasks;
  readonly logLevels: LogLevels;
  readonly clock: Clock;
  readonly drift: Drift | null;
}

/**
 * The endpoint of one server: whatever the client says goes to that server as it stands, methods nobody here has
 * heard of included. Only lists may be answered from what is known, so that looking starts no process; and the
 * operator's tool filter holds here too.
 */
export class ServerEndpoint {
  readonly #deps: ServerEndpointDeps;

  constructor(deps: ServerEndpointDeps) {
    this.#deps = deps;
  }

  /** The caller's access was checked before. */
  run(exchange: Exchange, name: string): Promise<Outcome> {
    const { dispatch, servers } = this.#deps;
    const server = servers.get(name);
    if (server === null) return Promise.resolve(failure(noServer(name)));
    const { method, era } = exchange.request;
    switch (method) {
      case 'tools/call':
        return this.#callTool(exchange, server);
      case 'prompts/get':
        return this.#ofPrompt(exchange, server, namedParam(exchange.request, 'name'));
      case 'completion/complete':
        return this.#complete(exchange, server);
      case 'resources/read':
        return this.#read(exchange, name);
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return this.#subscribe(exchange, name);
      case 'logging/setLevel':
        return this.#deps.logLevels.setOn(server, exchange);
      case 'tasks/get':
      case 'tasks/result':
      case 'tasks/update':
      case 'tasks/cancel':
      case 'tasks/list':
        return this.#deps.tasks.run(exchange, serverEndpoint(name));
      case 'ping':
        // The server's health is its supervisor's matter.
        return Promise.resolve(ownAnswer(era, ''));
      case 'initialize':
      case 'server/discover':
        return Promise.resolve(failure(new GatewayError('INVALID_REQUEST', `${method} is answered by the edge`)));
      default: {
        const list = listMethod(method);
        return list === null ? dispatch.call(name, exchange.request, exchange) : this.#list(exchange, server, list);
      }
    }
  }

  /** It concerns one server only: a server that is starting gets as long as a call to it, not only `waitMs`. */
  async handshake(name: string, client: ClientProfile, waitMs: number): Promise<HandshakeView | GatewayError> {
    const { upstreams, servers, clock } = this.#deps;
    const server = servers.get(name);
    if (server === null) return noServer(name);
    const patience = isDown(upstreams, name) ? waitMs : Math.max(waitMs, server.timeoutMs);
    let catalog = upstreams.knownCatalog(name, client);
    const old = catalog !== null && handshakeIsStale(catalog, clock.wall()) && isStarted(upstreams, name);
    if (catalog === null || old) catalog = (await upstreams.catalog(name, client, patience)) ?? catalog;
    return catalog === null ? servers.unavailable(name) : viewOf(catalog, clock.wall(), client.principal);
  }

  /** Completions for a prompt or a template are as much the server's words as what they are for. */
  #complete(exchange: Exchange, server: Server): Promise<Outcome> {
    const { bytes } = exchange.request;
    const ref = bodyField(exchange.request, 'ref');
    const type = ref === null ? null : stringValue(bytes, field(bytes, ref.start, ref.end, 'type'));
    if (type === 'ref/prompt') return this.#ofPrompt(exchange, server, namedParam(exchange.request, 'name', 'ref'));
    if (type === 'ref/resource') return this.#ofTemplate(exchange, server, namedParam(exchange.request, 'uri', 'ref'));
    return this.#deps.dispatch.call(server.name, exchange.request, exchange);
  }

  async #ofTemplate(exchange: Exchange, server: Server, uri: NamedParam | GatewayError): Promise<Outcome> {
    const { dispatch, drift } = this.#deps;
    const { name } = server;
    const known = await this.#judged(exchange, server);
    if (known instanceof GatewayError) return failure(known);
    if (known === null || known.withheld !== undefined) {
      if (uri instanceof GatewayError) return failure(uri);
      const hidden =
        known === null
          ? drift?.guards.isBlocked(name, 'resourceTemplates', uri.value) === true
          : hidesTemplate(known, uri.value);
      if (hidden) return failure(new GatewayError('RESOURCE_NOT_FOUND', `Resource not found: ${uri.value}`));
    }
    return dispatch.call(name, exchange.request, exchange);
  }

  /** `prompt`: which one it is about. */
  async #ofPrompt(exchange: Exchange, server: Server, prompt: NamedParam | GatewayError): Promise<Outcome> {
    const { name } = server;
    const known = await this.#judged(exchange, server);
    if (known instanceof GatewayError) return failure(known);
    const refused = this.#refused(name, known, 'prompts', prompt);
    return refused === null ? this.#deps.dispatch.call(name, exchange.request, exchange) : failure(refused);
  }

  /** What is known of the server; where only what was approved may be used, it is waited for. */
  async #judged({ client }: Exchange, server: Server): Promise<ServerCatalog | GatewayError | null> {
    const { upstreams, servers } = this.#deps;
    const { name } = server;
    const known = upstreams.knownCatalog(name, client);
    if (known !== null || !this.#isGuarded(server)) return known;
    return (await upstreams.catalog(name, client, server.timeoutMs)) ?? servers.unavailable(name);
  }

  /** What is kept back under this name; of a server of which nothing is known, what the operator blocked. */
  #refused(
    server: string,
    known: ServerCatalog | null,
    list: 'tools' | 'prompts',
    name: NamedParam | GatewayError,
  ): GatewayError | null {
    if (known !== null) return known.withheld === undefined ? null : refuseNamed(known, list, name);
    if (name instanceof GatewayError || this.#deps.drift?.guards.isBlocked(server, list, name.value) !== true) {
      return null;
    }
    return blocked(server, list, name.value);
  }

  #isGuarded({ name }: Server): boolean {
    return this.#deps.drift?.guards.isClosed(name) === true;
  }

  async #read(exchange: Exchange, name: string): Promise<Outcome> {
    const outcome = await this.#deps.cache.call(name, exchange.request, exchange);
    return seesLikeAll(exchange.client.principal) ? outcome : keptPrivate(outcome);
  }

  #subscribe(exchange: Exchange, server: string): Promise<Outcome> {
    const uri = namedParam(exchange.request, 'uri');
    if (uri instanceof GatewayError) return this.#deps.dispatch.call(server, exchange.request, exchange);
    const resource = { server, uri: uri.value, exposed: uri.value };
    return this.#deps.subscriptions.run(resource, exchange.request, exchange);
  }

  /** The tool's definition, where it is known, says how its headers are checked and its result is translated. */
  #callTool(exchange: Exchange, server: Server): Promise<Outcome> {
    const { upstreams } = this.#deps;
    const { request, client } = exchange;
    const refused = filtersAny(server.tools) ? refuseTool(server, exchange) : null;
    if (refused !== null) return Promise.resolve(failure(refused));
    const known = upstreams.knownCatalog(server.name, client);
    if (known === null || known.withheld !== undefined) {
      const withheld = this.#refused(server.name, known, 'tools', namedParam(request, 'name'));
      if (withheld !== null) return Promise.resolve(failure(withheld));
    }
    if (known !== null) {
      const plain = request.era === 'stateful' && known.handshake.era === 'stateful' && !offersTasks(known);
      return plain
        ? this.#deps.dispatch.call(server.name, request, exchange)
        : this.#callKnown(exchange, server.name, known);
    }
    const checked =
      (request.era === 'stateless' && exchange.paramHeaders != null) || mayBeTask(exchange) || this.#isGuarded(server);
    return checked ? this.#callChecked(exchange, server) : this.#callUnknown(exchange, server);
  }

  /**
   * Nothing is known of the server here, as where a session that began at another node makes its first call. What is refused
   * may be a tool that is to be had as a task only: its server is listed, and the call made anew if the list says that of
   * this very tool. Any other may have run, whatever it answered.
   */
  async #callUnknown(exchange: Exchange, server: Server): Promise<Outcome> {
    const { upstreams } = this.#deps;
    const { request, client } = exchange;
    const outcome = await this.#deps.dispatch.call(server.name, request, exchange);
    if (!mayMissTask(outcome) || exchange.cancelled !== null) return outcome;
    const known = await upstreams.catalog(server.name, client, server.timeoutMs);
    if (known === null || exchange.cancelled !== null) return outcome;
    return missedTask(outcome, request.era, known, toolOf(known, request))
      ? this.#callListed(exchange, server.name, known)
      : outcome;
  }

  /**
   * A call whose headers could disagree with its body, that may become a task, or whose definition has to be an approved
   * one is not let through before the tool's declaration is known.
   */
  async #callChecked(exchange: Exchange, server: Server): Promise<Outcome> {
    const { upstreams } = this.#deps;
    const catalog = await upstreams.catalog(server.name, exchange.client, server.timeoutMs);
    if (catalog === null) {
      if (this.#isGuarded(server)) return failure(this.#deps.servers.unavailable(server.name));
      return this.#deps.dispatch.call(server.name, exchange.request, exchange);
    }
    return this.#callListed(exchange, server.name, catalog);
  }

  #callListed(exchange: Exchange, server: string, known: ServerCatalog): Promise<Outcome> {
    const withheld = refuseNamed(known, 'tools', namedParam(exchange.request, 'name'));
    return withheld === null ? this.#callKnown(exchange, server, known) : Promise.resolve(failure(withheld));
  }

  #callKnown(exchange: Exchange, server: string, known: ServerCatalog): Promise<Outcome> {
    const { dispatch, tasks } = this.#deps;
    const { request } = exchange;
    const tool = toolOf(known, request);
    const fault = tool === null ? null : refuseParamHeaders(tool, exchange);
    if (fault !== null) return this.#callDoubted(exchange, server, known, fault);
    const { era } = known.handshake;
    const outcome = offersTasks(known)
      ? tasks.call({ server, request, exchange, endpoint: serverEndpoint(server), era, tool })
      : dispatch.call(server, request, exchange);
    return tool === null ? outcome : toolResult(outcome, request, known.handshake.era, tool);
  }

  /** The client may have read a newer declaration than ours: its headers are held against the present one before (H6). */
  async #callDoubted(exchange: Exchange, server: string, known: ServerCatalog, fault: GatewayError): Promise<Outcome> {
    const { upstreams, clock, servers } = this.#deps;
    if (!listIsStale(known, 'tools', clock.wall()) || !isStarted(upstreams, server)) return failure(fault);
    const now = await upstreams.catalog(server, exchange.client, servers.get(server)?.timeoutMs ?? 0);
    if (now === null || listIsStale(now, 'tools', clock.wall())) return failure(fault);
    // The present declaration may be unapproved.
    const withheld = this.#refused(server, now, 'tools', namedParam(exchange.request, 'name'));
    if (withheld !== null) return failure(withheld);
    return this.#callKnown(exchange, server, now);
  }

  async #list(exchange: Exchange, server: Server, list: ListMethod): Promise<Outcome> {
    const { upstreams, servers } = this.#deps;
    const { client, request } = exchange;
    const { name } = server;
    let known = upstreams.knownCatalog(name, client);
    // The gateway inspects its first list before any client sees it.
    if (known === null && this.#isGuarded(server)) known = await upstreams.catalog(name, client, server.timeoutMs);
    if (known === null && this.#isGuarded(server)) return failure(servers.unavailable(name));
    const live = this.#mayAskLive(server, known, client) || (await upstreams.ownsConnectionElsewhere?.(name, client));
    if (live === true && !(known !== null && isDown(upstreams, name))) {
      const outcome = await this.#deps.cache.call(name, request, exchange);
      if (outcome.kind === 'answer' || known === null || exchange.cancelled !== null) {
        return this.#shown(sound(outcome, list), server, list, known, exchange);
      }
    }
    known ??= await upstreams.catalog(name, client, server.timeoutMs);
    if (known === null) return failure(servers.unavailable(name));
    return this.#shown(knownPage(known, list, request), server, list, known, exchange);
  }

  /** The page as the server wrote it, without what is kept back; the rest is the same for every caller of this kind. */
  #shown(
    outcome: Outcome,
    server: Server,
    list: ListMethod,
    known: ServerCatalog | null,
    exchange: Exchange,
  ): Outcome | Promise<Outcome> {
    const { drift } = this.#deps;
    if (drift === null || drift.guards.policy(server.name) === 'off')
      return shown(outcome, server, list, known, exchange);
    const raw = known === null ? null : drift.guards.raw(known);
    return drift.pages
      .shown(outcome, list, raw, server.name, exchange)
      .then((page) => shown(page, server, list, known, exchange));
  }

  /** A connection that is there anyway, or one that is no process. */
  #mayAskLive(server: Server, known: ServerCatalog | null, client: ClientProfile): boolean {
    if (!isOwnProcess(server) || known?.handshake.era === 'stateless') return true;
    return this.#deps.upstreams.ownsConnection(server.name, client);
  }
}

function viewOf(catalog: ServerCatalog, wall: number, principal: Principal): HandshakeView {
  const { handshake } = catalog;
  const { cacheScope } = cacheHints(handshake.result, 0, handshake.result.length);
  return {
    serverInfo: handshake.serverInfo ?? '{"name":"unknown","version":"0"}',
    capabilities: handshake.capabilities,
    instructions: handshake.instructions,
    handshake,
    ttlMs: handshakeTtlMs(catalog, wall),
    cacheScope: handshake.era === 'stateless' && seesLikeAll(principal) ? cacheScope : 'private',
  };
}

function refuseNamed(
  known: ServerCatalog,
  list: 'tools' | 'prompts',
  name: NamedParam | GatewayError,
): GatewayError | null {
  return name instanceof GatewayError ? name : refuseUnapproved(known, list, name.value);
}

function refuseTool(server: Server, { request }: Exchange): GatewayError | null {
  const tool = namedParam(request, 'name');
  if (tool instanceof GatewayError) return tool;
  if (filterAllows(server.tools, tool.value)) return null;
  return new GatewayError('INVALID_PARAMS', `Unknown tool: ${tool.value}`, { server: server.name });
}

const TOOLS = new WeakMap<ServerCatalog, ReadonlyMap<string, Capability>>();

function toolOf(catalog: ServerCatalog, request: Message): Capability | null {
  const name = namedParam(request, 'name');
  if (name instanceof GatewayError) return null;
  let tools = TOOLS.get(catalog);
  if (tools === undefined) {
    tools = new Map(catalog.lists.tools.items.map((tool) => [tool.key, tool]));
    TOOLS.set(catalog, tools);
  }
  return tools.get(name.value) ?? null;
}

/** A page that the server has just written, without what would make clients refuse all of it. */
function sound(outcome: Outcome, list: ListMethod): Outcome {
  if (outcome.kind !== 'answer' || outcome.message.kind !== 'result') return outcome;
  const { message } = outcome;
  const { body } = message;
  const { page } = soundPage(list, body, message.era);
  if (page === body) return outcome;
  return answer(spliceMessage(message, [{ start: message.bodyStart, end: message.bodyEnd, insert: page }]));
}

function isStateless(outcome: Outcome): boolean {
  return outcome.kind === 'answer' && outcome.message.era === 'stateless';
}

/** A page as this caller may see it; one that is not for everybody to keep says so (C9), on all pages alike (C4). */
function shown(
  outcome: Outcome,
  server: Server,
  list: ListMethod,
  known: ServerCatalog | null,
  { request, client: { principal } }: Exchange,
): Outcome {
  const tasks = list.kind === 'tools' && request.era === 'stateful' && known !== null && offersTasks(known);
  if (tasks) outcome = withTaskSupport(outcome);
  if (list.kind === 'tools' && server.transport.type === 'http' && isStateless(outcome)) {
    outcome = withoutMisdeclared(outcome);
  }
  const cut = list.kind === 'tools' && filtersAny(server.tools);
  const page = cut ? filterTools(outcome, server.tools) : outcome;
  const pages = known === null ? [] : known.lists[list.kind].pages;
  const mixed = pages.length > 1 && known!.lists[list.kind].cacheScope === 'private';
  return cut || mixed || !seesLikeAll(principal) ? keptPrivate(page) : page;
}
