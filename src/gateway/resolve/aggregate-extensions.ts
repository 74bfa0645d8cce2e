import type { Catalog } from '../../catalog/catalog.ts';
import { isOfSkills } from '../../catalog/catalog-member.ts';
import { isWrapped, skillEdits, unwrapUri, wrapUri } from '../../catalog/exposed-uris.ts';
import { withTimeout } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { bodyString } from '../../protocol/body.ts';
import { editBody, spliceMessage } from '../../protocol/splice.ts';
import { innerExchange } from '../inner-exchange.ts';
import { isNotServing } from '../known-servers.ts';
import type { ListParts } from '../list-parts.ts';
import { isResult, ownAnswer } from '../own-results.ts';
import { cursorParam, foreignCursor, namedParam, withParam } from '../params.ts';
import { refuseAccess } from '../policy/access.ts';
import { keptPrivate, seesLikeAll } from '../policy/cache-scope.ts';

/** How long a list of several members waits for a page of one of them. */
const PAGE_WAIT_MS = 5_000;

/**
 * Methods of extensions on the aggregate, sent to a member that declares the extension (decision 057). A URI selects the
 * member; lists return the pages of one member after those of another; for any other method there must be only one member.
 */
export class AggregateExtensions {
  readonly #deps: ListParts;

  constructor(deps: ListParts) {
    this.#deps = deps;
  }

  async run(exchange: Exchange): Promise<Outcome> {
    const { client, request } = exchange;
    const { method } = request;
    const catalog = await this.#deps.catalogs.ready(client, this.#deps.desired.state.firstListWaitMs);
    const servers = catalog.serversWith(method);
    if (servers.length === 0) return failure(new GatewayError('METHOD_NOT_FOUND', `Method not found: ${method}`));
    const uri = bodyString(request, 'uri');
    if (uri !== null) return this.#ofUri(exchange, uri, servers, catalog);
    if (method.endsWith('/list')) return this.#list(exchange, servers);
    return servers.length === 1 ? this.#call(servers[0]!, request, exchange) : failure(ambiguous(method, servers));
  }

  async #ofUri(exchange: Exchange, uri: string, servers: readonly string[], catalog: Catalog): Promise<Outcome> {
    const { client, request } = exchange;
    const named = unwrapUri(uri);
    const refused = named === null ? null : refuseAccess(client.principal, named.server);
    if (refused !== null) return failure(refused);
    const target = catalog.resource(uri);
    if (target !== null && servers.includes(target.server)) {
      const param = namedParam(request, 'uri');
      const own = param instanceof GatewayError ? request : withParam(request, param, target.uri);
      return this.#call(target.server, own, exchange);
    }
    const choices = catalog.choices('resources', uri);
    if (choices.length > 0) return failure(contested(uri, choices));
    if (isWrapped(uri)) return failure(unknown(uri));
    if (servers.length === 1) return this.#call(servers[0]!, request, exchange);
    return isOfSkills(request.method)
      ? this.#askAll(exchange, uri, servers)
      : failure(ambiguous(request.method, servers));
  }

  /** Reads an unlisted skill under its server's own URI: asks all members, of which exactly one must have it. */
  async #askAll(exchange: Exchange, uri: string, servers: readonly string[]): Promise<Outcome> {
    const found: { readonly server: string; readonly outcome: Outcome }[] = [];
    let failed: Outcome | null = null;
    for (const server of servers) {
      const outcome = await this.#call(server, exchange.request, exchange);
      if (isResult(outcome)) found.push({ server, outcome });
      else if (outcome.kind === 'failure') failed = outcome;
      if (exchange.cancelled !== null) return outcome;
    }
    if (found.length > 1) {
      const choices = found.map(({ server }) => wrapUri(server, uri));
      return failure(contested(uri, choices));
    }
    return found[0]?.outcome ?? failed ?? failure(unknown(uri));
  }

  /** One page of one member. A member that returns none is skipped, so that the pages of the others can be reached. */
  async #list(exchange: Exchange, servers: readonly string[]): Promise<Outcome> {
    const { request } = exchange;
    const cursor = cursorParam(request);
    if (cursor instanceof GatewayError) return failure(cursor);
    const from = cursor === null ? { server: servers[0]!, cursor: null } : readCursor(cursor);
    let at = from === null ? -1 : servers.indexOf(from.server);
    if (from === null || at < 0) {
      return failure(foreignCursor());
    }
    let own = from.cursor;
    let last: Outcome | null = null;
    for (; at < servers.length; at++, own = null) {
      const server = servers[at]!;
      // A server that is down is not waited for.
      if (isNotServing(this.#deps.upstreams, server, exchange.client) && servers.length > 1) continue;
      const page = editBody(request, [['cursor', own === null ? null : JSON.stringify(own)]]);
      const asked = request.bodyStart < 0 ? request : page;
      last = await (servers.length === 1 ? this.#call(server, asked, exchange) : this.#page(server, asked, exchange));
      if (exchange.cancelled !== null) return last;
      if (isResult(last)) return withNext(last.message, server, servers[at + 1] ?? null);
    }
    // The earlier pages were valid, so the list ends without an error.
    if (cursor !== null && request.method === 'skills/list') {
      const hints = request.era === 'stateless' ? ',"ttlMs":0,"cacheScope":"private"' : '';
      return ownAnswer(request.era, `"skills":[]${hints}`);
    }
    return last ?? failure(new GatewayError('NOT_SENT', `No server with ${request.method} can be asked now`));
  }

  /** Calls one of several members, in an exchange of its own, because a call that is late must not touch that of the next. */
  async #page(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    const own = { cancelled: exchange.cancelled, onCancel: null as Exchange['onCancel'] };
    const cancel = (reason: string): void => {
      own.cancelled = reason;
      own.onCancel?.(reason);
    };
    exchange.onCancel = cancel;
    const called = this.#call(server, request, innerExchange(exchange, own));
    const page = await withTimeout(this.#deps.clock, PAGE_WAIT_MS, called, () => {
      cancel('the page came too late');
      return late(server);
    });
    exchange.onCancel = null;
    return page;
  }

  async #call(server: string, request: Message, exchange: Exchange): Promise<Outcome> {
    const outcome = await this.#deps.dispatch.callServer(server, request, exchange);
    const own = seesLikeAll(exchange.client.principal) ? outcome : keptPrivate(outcome);
    if (!isResult(own) || !isOfSkills(request.method)) return own;
    const { message } = own;
    const result = { start: message.bodyStart, end: message.bodyEnd };
    return answer(spliceMessage(message, skillEdits(message.bytes, result, server)));
  }
}

function late(server: string): Outcome {
  return failure(
    new GatewayError('TIMEOUT', `Server '${server}' gave no page within ${PAGE_WAIT_MS / 1000} s`, { server }),
  );
}

/** The page with a cursor that names the member of the next page. */
function withNext(page: Message, server: string, next: string | null): Outcome {
  const own = bodyString(page, 'nextCursor');
  const cursor = own !== null ? writeCursor(server, own) : next === null ? null : writeCursor(next, null);
  return answer(editBody(page, [['nextCursor', cursor === null ? null : JSON.stringify(cursor)]]));
}

/** Not sealed: it leads only to members that the caller may use, and to pages that their own endpoints return too. */
function writeCursor(server: string, own: string | null): string {
  return Buffer.from(JSON.stringify([server, own])).toString('base64url');
}

function readCursor(cursor: string): { readonly server: string; readonly cursor: string | null } | null {
  try {
    const [server, own] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as unknown[];
    if (typeof server !== 'string' || (own !== null && typeof own !== 'string')) return null;
    return { server, cursor: own };
  } catch {
    return null;
  }
}

/** The error for a URI of several servers, with the exposed URIs of each. */
export function contested(uri: string, choices: readonly string[]): GatewayError {
  return new GatewayError('INVALID_PARAMS', `Several servers have ${uri}: use ${choices.join(' or ')}`);
}

function unknown(uri: string): GatewayError {
  return new GatewayError('INVALID_PARAMS', `Unknown URI: ${uri}`);
}

function ambiguous(method: string, servers: readonly string[]): GatewayError {
  const endpoints = servers.map((server) => `/servers/${server}/mcp`);
  return new GatewayError(
    'INVALID_PARAMS',
    `Several servers may have ${method}, and the request does not say which is meant: use ${endpoints.join(' or ')}`,
  );
}
