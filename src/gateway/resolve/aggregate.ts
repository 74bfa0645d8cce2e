import { aggregateHandshake } from '../../catalog/aggregate-handshake.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { ExposedItem } from '../../catalog/exposed-items.ts';
import { type PrefixedTool, parsePrefixedTool, withoutBridgePrefix } from '../../catalog/exposed-names.ts';
import { isWrapped, unwrapUri } from '../../catalog/exposed-uris.ts';
import { isLoginCatalog } from '../../catalog/login-catalog.ts';
import type { ResourceTarget } from '../../catalog/resource-table.ts';
import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { cancelledBeforeSend, GatewayError } from '../../model/gateway-error.ts';
import { eraOf } from '../../model/message.ts';
import { TOOL_NAME_DELIMITER } from '../../model/names.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { ListMethod } from '../../protocol/methods.ts';
import type { ListParts } from '../list-parts.ts';
import { cursorParam, foreignCursor, type NamedParam, namedParam, withParam } from '../params.ts';
import { refuseAccess } from '../policy/access.ts';
import { whyWithheldName } from '../policy/approved.ts';
import type { Policies } from '../policy/policies.ts';
import { Target } from '../target.ts';
import { type AggregateExtensions, contested } from './aggregate-extensions.ts';
import { exposedContents, exposedResult } from './exposed-result.ts';
import type { LogLevels } from './log-levels.ts';
import type { Found, HandshakeView, Resolver } from './resolver.ts';

interface AggregateDeps extends ListParts {
  readonly extensions: AggregateExtensions;
  readonly logLevels: LogLevels;
}

/**
 * The aggregate endpoint: finds the server that a request means and puts in that server's own name; the rest of the request is
 * unchanged. The catalog contains only servers that the caller may use.
 */
export class Aggregate implements Resolver {
  readonly #deps: AggregateDeps;

  constructor(deps: AggregateDeps) {
    this.#deps = deps;
  }

  refusal(): null {
    return null;
  }

  async handshake(endpoint: Endpoint, client: ClientProfile, waitMs: number): Promise<HandshakeView> {
    const { sessions, catalogs, serverInfo } = this.#deps;
    // Before the wait: a session that ends meanwhile is deleted and must not be added again.
    sessions.see(client, endpoint);
    const catalog = await catalogs.ready(client, waitMs);
    const seen = client.sessionId === null ? null : sessions.get(client.sessionId);
    if (seen !== null) seen.announced = catalog;
    return {
      serverInfo,
      ...aggregateHandshake(catalog, eraOf(client.revision)),
      handshake: null,
      ttlMs: 0,
      cacheScope: 'private',
    };
  }

  named(kind: 'tool' | 'prompt' | 'template', exchange: Exchange): Found {
    const { request, client } = exchange;
    const within = request.method === 'completion/complete' ? 'ref' : undefined;
    const param = namedParam(request, kind === 'template' ? 'uri' : 'name', within);
    if (param instanceof GatewayError) return param;
    if (kind === 'template') return this.#template(exchange, param);
    const catalog = this.#deps.catalogs.of(client);
    const item = itemOf(kind, param.value, catalog);
    return item === null
      ? this.#unlisted(kind, exchange, param, catalog)
      : itemTarget(kind, exchange, param, item, catalog);
  }

  /** Looks in the table, the wrapped form and the templates. For an unlisted URI, returns all servers with resources. */
  async resource(
    exchange: Exchange,
    _endpoint: Endpoint,
    uri?: string,
  ): Promise<Target | readonly Target[] | GatewayError> {
    const { client, request } = exchange;
    const param = uri === undefined ? namedParam(request, 'uri') : null;
    if (param instanceof GatewayError) return param;
    const name = uri ?? param!.value;
    const refused = refuseNamed(client.principal, name);
    if (refused !== null) return refused;
    let catalog = this.#deps.catalogs.of(client);
    if (catalog.resource(name) === null && !catalog.complete) catalog = await this.#ready(client);
    const found = catalog.resource(name);
    if (found !== null) return resourceTarget('resource', exchange, param, found, catalog);
    const servers = isWrapped(name) || catalog.choices('resources', name).length > 0 ? [] : catalog.resourceServers;
    if (servers.length === 0) return absent(name, catalog);
    return servers.map((server) =>
      resourceTarget('resource', exchange, param, { server, uri: name, exposed: name }, catalog),
    );
  }

  /**
   * Answers from known catalogs (S2.30, S2.19). Servers that were never listed, or whose lists expired, delay a list for a
   * limited time. All pages of a list come from the catalog of its first page.
   */
  async list({ client, request }: Exchange, _endpoint: Endpoint, { kind }: ListMethod): Promise<Outcome> {
    const { catalogs, sessions, cursors, clock, desired } = this.#deps;
    const cursor = cursorParam(request);
    if (cursor instanceof GatewayError) return failure(cursor);
    if (cursor === null) {
      const catalog = await catalogs.fresh(client, kind, desired.state.firstListWaitMs);
      sessions.took(client, kind, catalog);
      return answer(catalog.page(kind, request.era, 0, clock.wall())!);
    }
    const content = cursors.read(cursor);
    if (content === null || content.kind !== kind) {
      return failure(foreignCursor());
    }
    const catalog = catalogs.version(content.version, client);
    const page = catalog?.page(kind, request.era, content.page, clock.wall()) ?? null;
    if (page !== null) return answer(page);
    return failure(new GatewayError('INVALID_PARAMS', 'the list has changed since; start again without a cursor'));
  }

  setLevel(exchange: Exchange): Promise<Outcome> {
    return this.#deps.logLevels.set(exchange);
  }

  other(exchange: Exchange): Promise<Outcome> {
    return this.#deps.extensions.run(exchange);
  }

  outward(
    outcome: Outcome,
    { server, name, exposed }: Pick<Target, 'server' | 'name' | 'exposed'>,
    exchange: Exchange,
  ) {
    const { catalogs } = this.#deps;
    if (exchange.request.method !== 'resources/read') return exposedResult(outcome, server, exchange, catalogs);
    const resource = { server, uri: name as string, exposed: exposed ?? (name as string) };
    return exposedContents(outcome, resource, catalogs.of(exchange.client));
  }

  async #template(exchange: Exchange, param: NamedParam): Promise<Target | GatewayError> {
    const { client } = exchange;
    const refused = refuseNamed(client.principal, param.value);
    if (refused !== null) return refused;
    let catalog = this.#deps.catalogs.of(client);
    if (catalog.resourceReference(param.value) === null && !catalog.complete) catalog = await this.#ready(client);
    const found = catalog.resourceReference(param.value);
    if (found === null) return absent(param.value, catalog);
    return resourceTarget('template', exchange, param, found, catalog);
  }

  /** Resolves an unknown name: its server may not be listed yet; otherwise the caller gets the reason. */
  async #unlisted(
    kind: 'tool' | 'prompt',
    exchange: Exchange,
    param: NamedParam,
    before: Catalog,
  ): Promise<Target | GatewayError> {
    const { client, request } = exchange;
    const { policies } = this.#deps;
    const { value } = param;
    const spelled = (catalog: Catalog) =>
      kind === 'tool' ? unlistedTool(value, catalog, client.principal, policies) : null;
    const named = spelled(before);
    if (named instanceof GatewayError) return named;
    const hopeless = before.complete || (kind === 'tool' && named === null && value.includes(TOOL_NAME_DELIMITER));
    const catalog = hopeless ? before : await this.#ready(client);
    const item = itemOf(kind, value, catalog);
    if (item !== null) return itemTarget(kind, exchange, param, item, catalog);
    const still = hopeless ? null : spelled(catalog);
    if (still === null || still instanceof GatewayError) {
      return this.#afterPendingLists(kind, exchange, param, unknownName(kind, value, catalog, policies));
    }
    // The server is still not listed: the call itself is sent, and fails with the reason if it cannot be made.
    const own = withParam(request, param, still.tool);
    const target = new Target(client.principal, still.server, 'tool', own, null, still.tool);
    target.listed = true;
    return target;
  }

  /** The client may have got the name from the server, or through another node, before this node knows it. */
  async #afterPendingLists(
    kind: 'tool' | 'prompt',
    exchange: Exchange,
    param: NamedParam,
    unknown: GatewayError,
  ): Promise<Target | GatewayError> {
    const { upstreams, catalogs, policies } = this.#deps;
    const { client } = exchange;
    const certain = kind === 'tool' ? unknown.data.server === undefined : unknown.code === 'QUARANTINED';
    if (certain) return unknown;
    const before = catalogs.of(client);
    const own = spelledName(param.value, before);
    if (own === null || !before.members.some(({ server }) => server === own.server)) return unknown;
    const found = await upstreams.awaitPendingLists?.(own.server, exchange, `${kind}s`, own.tool);
    if (exchange.cancelled !== null) return cancelledBeforeSend(own.server, exchange.cancelled);
    if (found !== true) return unknown;
    const catalog = catalogs.of(client);
    const item = itemOf(kind, param.value, catalog);
    if (item !== null) return itemTarget(kind, exchange, param, item, catalog);
    return unknownName(kind, param.value, catalog, policies);
  }

  #ready(client: ClientProfile): Promise<Catalog> {
    return this.#deps.catalogs.ready(client, this.#deps.desired.state.firstListWaitMs);
  }
}

function itemOf(kind: 'tool' | 'prompt', name: string, catalog: Catalog): ExposedItem | null {
  return kind === 'tool' ? catalog.tool(name) : catalog.prompt(name);
}

function itemTarget(
  kind: 'tool' | 'prompt',
  { client, request }: Exchange,
  param: NamedParam,
  { server, item }: ExposedItem,
  catalog: Catalog,
): Target {
  const { key } = item;
  const own = withParam(request, param, key);
  return new Target(client.principal, server, kind, own, catalog.catalogOf(server), key, param.value, item);
}

/** `param`: the URI in the request; null if the request has several. */
function resourceTarget(
  kind: 'resource' | 'template',
  { client, request }: Exchange,
  param: NamedParam | null,
  { server, uri, exposed }: ResourceTarget,
  catalog: Catalog,
): Target {
  const own = param === null ? request : withParam(request, param, uri);
  return new Target(client.principal, server, kind, own, catalog.catalogOf(server), uri, exposed);
}

/** Checks access to the server that a wrapped URI names. */
function refuseNamed(principal: Principal, uri: string): GatewayError | null {
  const named = unwrapUri(uri);
  return named === null ? null : refuseAccess(principal, named.server);
}

function absent(uri: string, catalog: Catalog): GatewayError {
  const choices = catalog.choices('resources', uri);
  if (choices.length === 0) return new GatewayError('RESOURCE_NOT_FOUND', `Resource not found: ${uri}`);
  return contested(uri, choices);
}

/**
 * For an unknown name: the server and tool that it spells, if that server was never listed. An error if the caller may not use
 * the server, whether or not it exists.
 */
function unlistedTool(
  name: string,
  catalog: Catalog,
  principal: Principal,
  policies: Policies,
): PrefixedTool | GatewayError | null {
  const spelled = spelledName(name, catalog);
  if (spelled === null) return null;
  const refused = refuseAccess(principal, spelled.server);
  if (refused !== null) return refused;
  const member = catalog.members.find(({ server }) => server === spelled.server);
  if (member === undefined || (member.catalog !== null && !isLoginCatalog(member.catalog))) return null;
  return policies.listsOf(spelled.server)?.('tools', spelled.tool) === false ? null : spelled;
}

/** The error for an unknown name, with the texts that S2.4 and S2.31 require. */
function unknownName(kind: 'tool' | 'prompt', name: string, catalog: Catalog, policies: Policies): GatewayError {
  const withheld = withheldName(kind, name, catalog, policies);
  if (withheld !== null) return withheld;
  const choices = catalog.choices(`${kind}s`, name);
  if (choices.length > 1) {
    return new GatewayError('INVALID_PARAMS', `Unknown ${kind}: ${name} (it could be ${choices.join(', ')})`);
  }
  if (kind === 'prompt') return new GatewayError('INVALID_PARAMS', `Unknown prompt: ${name}`);
  const spelled = spelledName(name, catalog);
  if (spelled === null) {
    const message = `Invalid tool name: invalid tool name format: ${name} (expected agent__tool)`;
    return new GatewayError('INVALID_PARAMS', message);
  }
  if (!catalog.members.some(({ server }) => server === spelled.server)) {
    return new GatewayError('INVALID_PARAMS', `Unknown tool: ${name} (unknown agent: ${spelled.server})`);
  }
  return new GatewayError('INVALID_PARAMS', `Unknown tool: ${name}`, { server: spelled.server });
}

/** The refusal of a name that is withheld; null for any other. */
function withheldName(
  kind: 'tool' | 'prompt',
  name: string,
  catalog: Catalog,
  policies: Policies,
): GatewayError | null {
  const spelled = spelledName(name, catalog);
  const own = spelled === null ? name : spelled.tool;
  for (const { server, catalog: known } of catalog.members) {
    if (known === null || (spelled !== null && spelled.server !== server)) continue;
    if (policies.listsOf(server)?.(`${kind}s`, own) === false) continue;
    const refused = whyWithheldName(known, kind, own);
    if (refused !== null) return refused;
  }
  return null;
}

/** The server and own name that a name spells, tool or prompt, with or without `mcp__`; null if it spells none. */
function spelledName(name: string, catalog: Catalog): PrefixedTool | null {
  const plain = (catalog.bridged ? withoutBridgePrefix(name) : null) ?? name;
  return plain.includes(TOOL_NAME_DELIMITER) ? parsePrefixedTool(plain) : null;
}
