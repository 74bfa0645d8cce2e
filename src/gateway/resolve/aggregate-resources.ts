import { appScriptEdits } from '../../catalog/app-script.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import { isWrapped, unwrapUri, uriEdit } from '../../catalog/exposed-uris.ts';
import type { ResourceTarget } from '../../catalog/resource-table.ts';
import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import { bodyField, errorCode } from '../../protocol/body.ts';
import { elements, field } from '../../protocol/fields.ts';
import { type Edit, spliceMessage } from '../../protocol/splice.ts';
import type { AnswerCache } from '../cache/answer-cache.ts';
import type { Dispatch, KnownServers } from '../dispatch/dispatch.ts';
import type { Catalogs } from '../lists/catalogs.ts';
import { noCompletion } from '../own-results.ts';
import { namedParam, withParam } from '../params.ts';
import { refuseAccess } from '../policy/access.ts';
import { keptPrivate, seesLikeAll } from '../policy/cache-scope.ts';
import { hidesTemplate } from '../policy/withheld.ts';
import { isDown } from '../server-index.ts';
import type { Subscriptions } from '../subscriptions/subscriptions.ts';

export interface AggregateResourcesDeps {
  readonly upstreams: KnownServers;
  readonly dispatch: Dispatch;
  readonly cache: AnswerCache;
  readonly catalogs: Catalogs;
  readonly subscriptions: Subscriptions;
  readonly firstListWaitMs: () => number;
}

/** Codes with which servers say that they do not have a resource. */
/** Apps of one result that get the script; a read gives one. The script names all tools of its server. */
const MAX_APPS = 4;
const ABSENT: ReadonlySet<number> = new Set([CATALOGUE.RESOURCE_NOT_FOUND.rpc, CATALOGUE.INVALID_PARAMS.rpc]);

/**
 * Reads, subscriptions and completion of resources on the aggregate. A URI is found by table, by its wrapped form,
 * by the templates; one that nobody lists is asked of the servers that have resources at all, in order, until one
 * knows it.
 */
export class AggregateResources {
  readonly #deps: AggregateResourcesDeps;

  constructor(deps: AggregateResourcesDeps) {
    this.#deps = deps;
  }

  /** `resources/read`, `resources/subscribe`, `resources/unsubscribe`. */
  async run(exchange: Exchange): Promise<Outcome> {
    const { request } = exchange;
    const uri = namedParam(request, 'uri');
    if (uri instanceof GatewayError) return failure(uri);
    const found = await this.find(exchange, uri.value);
    if (found instanceof GatewayError) return failure(found);
    if (!('server' in found)) return this.#ask(found, uri.value, exchange);
    const own = withParam(request, uri, found.uri);
    if (request.method !== 'resources/read') return this.#deps.subscriptions.run(found, own, exchange);
    return this.#read(found, own, exchange);
  }

  /** `completion/complete` of a `ref/resource`. */
  async complete(exchange: Exchange): Promise<Outcome> {
    const { request, client } = exchange;
    const uri = namedParam(request, 'uri', 'ref');
    if (uri instanceof GatewayError) return failure(uri);
    const refused = refuseNamed(client.principal, unwrapUri(uri.value));
    if (refused !== null) return failure(refused);
    let catalog = this.#deps.catalogs.of(client);
    if (catalog.resourceReference(uri.value) === null && !catalog.complete) catalog = await this.#ready(client);
    const target = catalog.resourceReference(uri.value);
    if (target === null) return failure(absent(uri.value, catalog));
    const known = catalog.members.find(({ server }) => server === target.server)?.catalog ?? null;
    if (known !== null && hidesTemplate(known, target.uri)) return failure(absent(uri.value, catalog));
    if (catalog.declared.get(target.server)?.completions !== true) return noCompletion(request.era);
    return this.#deps.dispatch.call(target.server, withParam(request, uri, target.uri), exchange);
  }

  /** Where the URI leads; the servers that may be asked for it where nothing says. */
  async find({ client }: Exchange, uri: string): Promise<ResourceTarget | readonly string[] | GatewayError> {
    const refused = refuseNamed(client.principal, unwrapUri(uri));
    if (refused !== null) return refused;
    let catalog = this.#deps.catalogs.of(client);
    if (catalog.resource(uri) === null && !catalog.complete) catalog = await this.#ready(client);
    const target = catalog.resource(uri);
    if (target !== null) return target;
    if (isWrapped(uri) || catalog.choices('resources', uri).length > 0) return absent(uri, catalog);
    return catalog.resourceServers.length === 0 ? absent(uri, catalog) : catalog.resourceServers;
  }

  #ready(client: ClientProfile): Promise<Catalog> {
    return this.#deps.catalogs.ready(client, this.#deps.firstListWaitMs());
  }

  /** One server after the other; the last word is a failure, then another error, then what the last one said. */
  async #ask(servers: readonly string[], uri: string, exchange: Exchange): Promise<Outcome> {
    let worst: Outcome | null = null;
    let rank = -1;
    const { upstreams } = this.#deps;
    const others = servers.filter((server) => !isDown(upstreams, server));
    // Those that are down are asked last, so that they do not keep the others from answering.
    for (const server of [...others, ...servers.filter((server) => !others.includes(server))]) {
      const outcome = await this.#askOne(server, uri, exchange);
      if (outcome.kind === 'answer' && outcome.message.kind === 'result') return outcome;
      if (exchange.cancelled !== null) return outcome;
      const weight = outcome.kind === 'failure' ? 2 : saysAbsent(outcome.message) ? 0 : 1;
      if (weight > rank) {
        worst = outcome;
        rank = weight;
      }
    }
    return worst ?? failure(new GatewayError('RESOURCE_NOT_FOUND', `Resource not found: ${uri}`));
  }

  async #read(target: ResourceTarget, request: Message, exchange: Exchange): Promise<Outcome> {
    const { cache, catalogs } = this.#deps;
    const outcome = renamed(await cache.call(target.server, request, exchange), target, catalogs.of(exchange.client));
    return seesLikeAll(exchange.client.principal) ? outcome : keptPrivate(outcome);
  }

  #askOne(server: string, uri: string, exchange: Exchange): Promise<Outcome> {
    const { subscriptions } = this.#deps;
    const { request } = exchange;
    const target = { server, uri, exposed: uri };
    if (request.method === 'resources/read') return this.#read(target, request, exchange);
    return subscriptions.run(target, request, exchange);
  }
}

/** A wrapped URI names its server. */
function refuseNamed(principal: Principal, named: { readonly server: string } | null): GatewayError | null {
  return named === null ? null : refuseAccess(principal, named.server);
}

function absent(uri: string, catalog: Catalog): GatewayError {
  const choices = catalog.choices('resources', uri);
  if (choices.length === 0) return new GatewayError('RESOURCE_NOT_FOUND', `Resource not found: ${uri}`);
  return new GatewayError('INVALID_PARAMS', `Several servers have ${uri}: use ${choices.join(' or ')}`);
}

function saysAbsent(error: Message): boolean {
  return ABSENT.has(errorCode(error));
}

/** A read's contents under the URIs that the client knows them by: that which it asked for, and others of the server. */
function renamed(outcome: Outcome, { server, uri: own, exposed }: ResourceTarget, catalog: Catalog): Outcome {
  if (outcome.kind !== 'answer' || outcome.message.kind !== 'result') return outcome;
  const { message } = outcome;
  const { bytes } = message;
  const contents = bodyField(message, 'contents');
  if (contents === null) return outcome;
  const edits: Edit[] = [];
  const tools = catalog.toolsOf(server);
  let apps = 0;
  for (const content of elements(bytes, contents.start, contents.end)) {
    const uri = field(bytes, content.start, content.end, 'uri');
    edits.push(...uriEdit(bytes, uri, (named) => (named === own ? exposed : catalog.exposedUri(server, named))));
    const script = apps < MAX_APPS ? appScriptEdits(bytes, content, server, tools) : [];
    apps += script.length;
    edits.push(...script);
  }
  return answer(spliceMessage(message, edits));
}
