import { type PageItem, pageItems } from '../../catalog/drift/guarded-catalog.ts';
import { isLoginCatalog } from '../../catalog/login-catalog.ts';
import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { parseObject } from '../../model/json-object.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { result } from '../../protocol/compose.ts';
import { field, stringValue } from '../../protocol/fields.ts';
import { scanHeaderParams } from '../../protocol/headers.ts';
import { cacheHints, handshakeIsStale, handshakeTtlMs } from '../../protocol/list-freshness.ts';
import { sanitizePage } from '../../protocol/list-page.ts';
import type { ListMethod } from '../../protocol/methods.ts';
import { cuts, editMembers, spliceMessage } from '../../protocol/splice.ts';
import type { Drift } from '../drift/drift.ts';
import { isNotServing, isStarted, mirrors, noServer, unavailable } from '../known-servers.ts';
import type { ListParts } from '../list-parts.ts';
import { isResult } from '../own-results.ts';
import { cursorParam, foreignCursor } from '../params.ts';
import { refuseAccess } from '../policy/access.ts';
import { keptPrivate, seesLikeAll } from '../policy/cache-scope.ts';
import { Target } from '../target.ts';
import { offersTasks, withTaskSupport } from '../tasks/offers-tasks.ts';
import type { LogLevels } from './log-levels.ts';
import type { HandshakeView, Resolver } from './resolver.ts';

interface SingleServerDeps extends ListParts {
  readonly logLevels: LogLevels;
  readonly drift: Drift;
}

/**
 * The endpoint of one server: requests go to that server unchanged, unknown methods included. Only the handshake and lists may
 * be answered from the known catalog, so that they start no process.
 */
export class SingleServer implements Resolver {
  readonly #deps: SingleServerDeps;

  constructor(deps: SingleServerDeps) {
    this.#deps = deps;
  }

  refusal(principal: Principal, { server }: Endpoint): GatewayError | null {
    return refuseAccess(principal, server) ?? (this.#deps.policies.server(server) === null ? noServer(server) : null);
  }

  /** Waits for a server that is starting as long as a call would, not only `waitMs`, as the endpoint has no other server. */
  async handshake(endpoint: Endpoint, client: ClientProfile, waitMs: number): Promise<HandshakeView | GatewayError> {
    const refused = this.refusal(client.principal, endpoint);
    if (refused !== null) return refused;
    const { upstreams, policies, clock } = this.#deps;
    const name = endpoint.server;
    const patience = isNotServing(upstreams, name, client)
      ? waitMs
      : Math.max(waitMs, policies.server(name)!.timeoutMs);
    let catalog = upstreams.knownCatalog(name, client);
    const old = catalog !== null && handshakeIsStale(catalog, clock.wall()) && isStarted(upstreams, name, client);
    if (catalog === null || old) catalog = (await upstreams.catalog(name, client, patience)) ?? catalog;
    else if (isLoginCatalog(catalog)) catalog = await upstreams.catalog(name, client, 0, true);
    return catalog === null ? unavailable(upstreams, name, client) : viewOf(catalog, clock.wall(), client.principal);
  }

  named(kind: 'tool' | 'prompt' | 'template', { client, request }: Exchange, { server }: Endpoint): Target {
    return new Target(client.principal, server, kind, request, this.#deps.upstreams.knownCatalog(server, client));
  }

  resource({ client, request }: Exchange, { server }: Endpoint, uri: string | null = null): Target {
    return new Target(client.principal, server, 'resource', request, null, uri);
  }

  setLevel(exchange: Exchange, { server }: Endpoint): Promise<Outcome> {
    return this.#deps.logLevels.setOn(this.#deps.policies.server(server)!, exchange);
  }

  other(exchange: Exchange, { server }: Endpoint): Promise<Outcome> {
    const { request } = exchange;
    if (request.method === 'initialize' || request.method === 'server/discover') {
      const text = `${request.method} is answered by the edge`;
      return Promise.resolve(failure(new GatewayError('INVALID_REQUEST', text)));
    }
    return this.#deps.dispatch.callServer(server, request, exchange);
  }

  async list(exchange: Exchange, endpoint: Endpoint, list: ListMethod): Promise<Outcome> {
    const { upstreams, dispatch, policies, cache } = this.#deps;
    const { client, request } = exchange;
    const { server: name } = endpoint;
    const server = policies.server(name)!;
    const target = new Target(client.principal, name, 'list', request, upstreams.knownCatalog(name, client));
    const refused = await dispatch.admit(target, exchange);
    if (refused !== null) return failure(refused);
    const known = target.catalog;
    const fresh = exchange.fresh === true;
    const live =
      fresh || this.#mayAskLive(server, known, client) || (await upstreams.ownsConnectionElsewhere?.(name, client));
    if (live === true && (fresh || known === null || !isNotServing(upstreams, name, client))) {
      const outcome = await (fresh ? dispatch : cache).call(target, request, exchange);
      if (fresh || outcome.kind === 'answer' || known === null || exchange.cancelled !== null) {
        return this.#shown(sound(outcome, list), server, list, known, exchange);
      }
    }
    if (known === null && !target.listed) await dispatch.listed(target, exchange);
    let { catalog } = target;
    // Other nodes may have its catalog.
    if (catalog !== null && isLoginCatalog(catalog)) catalog = await upstreams.catalog(name, client, 0, true);
    if (catalog === null) return failure(unavailable(upstreams, name, client));
    if (isLoginCatalog(catalog)) {
      return list.kind === 'tools' ? knownPage(catalog, list, request) : failure(unavailable(upstreams, name, client));
    }
    return this.#shown(knownPage(catalog, list, request), server, list, catalog, exchange);
  }

  /** The page as the server wrote it, without withheld items and those that policies exclude. */
  async #shown(
    outcome: Outcome,
    server: Server,
    list: ListMethod,
    known: ServerCatalog | null,
    exchange: Exchange,
  ): Promise<Outcome> {
    const { drift, policies } = this.#deps;
    let page = outcome;
    // The gateway must not use tools with an invalid `x-mcp-header` either, even if they are approved.
    if (list.kind === 'tools' && page.kind === 'answer' && mirrors(server, page.message.era))
      page = onlyTools(page, isSound);
    if (drift.guards.policy(server.name) !== 'off') {
      page = await drift.pages.shown(
        page,
        list,
        known === null ? null : drift.guards.raw(known),
        server.name,
        exchange,
      );
    }
    const { request, client } = exchange;
    const lists = list.kind === 'tools' ? policies.listsOf(server.name) : null;
    if (list.kind === 'tools') {
      if (request.era === 'stateful' && known !== null && offersTasks(known)) page = withTaskSupport(page);
      if (request.era === 'stateless') page = onlyTools(page, isSound);
      if (lists !== null) page = onlyTools(page, ({ key }) => key !== '' && lists('tools', key));
    }
    // A page that not all callers may get is private (C9), the same on all pages (C4).
    const { pages, cacheScope } = known?.lists[list.kind] ?? { pages: [], cacheScope: 'public' };
    const mixed = pages.length > 1 && cacheScope === 'private';
    return lists !== null || mixed || !seesLikeAll(client.principal) ? keptPrivate(page) : page;
  }

  /** Whether to ask the server itself: it is remote or stateless, or the client has an open connection. */
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

/** A page that the server has just written, without items that would make clients refuse all of it. */
function sound(outcome: Outcome, list: ListMethod): Outcome {
  if (!isResult(outcome)) return outcome;
  const { message } = outcome;
  const { body } = message;
  const { page } = sanitizePage(list, body, message.era);
  if (page === body) return outcome;
  return answer(spliceMessage(message, [{ start: message.bodyStart, end: message.bodyEnd, insert: page }]));
}

/** Messages by page, so that each is composed once. */
const MESSAGES = new WeakMap<Buffer, Message>();

/** The page of the known catalog that the request's cursor names. */
function knownPage(catalog: ServerCatalog, list: ListMethod, request: Message): Outcome {
  const cursor = cursorParam(request);
  if (cursor instanceof GatewayError) return failure(cursor);
  const { pages } = catalog.lists[list.kind];
  const { era, capabilities } = catalog.handshake;
  if (pages.length === 0) {
    if (parseObject(capabilities)?.[list.capability] === undefined) {
      return failure(new GatewayError('METHOD_NOT_FOUND', `Method not found: ${list.method}`));
    }
    return answer(result('0', `{"${list.resultKey}":[]}`, 'stateful'));
  }
  const page = cursor === null ? pages[0]! : pages.find((_, i) => i > 0 && cursorAfter(pages[i - 1]!) === cursor);
  if (page === undefined) return failure(foreignCursor());
  let message = MESSAGES.get(page);
  if (message === undefined) {
    message = result('0', page, era);
    // A page of the known catalog is stale at once (C7).
    if (era === 'stateless')
      message = spliceMessage(message, editMembers(message.bytes, bodyOf(message), [['ttlMs', '0']]));
    MESSAGES.set(page, message);
  }
  return answer(message);
}

/**
 * Whether the tool's `x-mcp-header` is valid: neither the gateway nor its client may use others over Streamable HTTP
 * (2026-07-28 streamable-http §Schema Extension, H6).
 */
function isSound({ bytes }: PageItem): boolean {
  return scanHeaderParams(bytes).ok;
}

/** A `tools/list` result with only the tools that `keeps` accepts; anything else unchanged. */
function onlyTools(outcome: Outcome, keeps: (tool: PageItem) => boolean): Outcome {
  if (!isResult(outcome)) return outcome;
  const { message } = outcome;
  const tools = pageItems('tools', message.bytes, message.bodyStart, message.bodyEnd);
  const edits = cuts(
    tools,
    tools.map((tool) => !keeps(tool)),
  );
  return edits.length === 0 ? outcome : answer(spliceMessage(message, edits));
}

function cursorAfter(page: Buffer): string | null {
  return stringValue(page, field(page, 0, page.length, 'nextCursor'));
}

function bodyOf(message: Message): { start: number; end: number } {
  return { start: message.bodyStart, end: message.bodyEnd };
}
