import type { Principal } from '../model/client-profile.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import { notification } from '../protocol/compose.ts';
import { declaresTasksExtension } from '../protocol/tasks/extension.ts';
import type { KnownServers } from './known-servers.ts';
import type { ListenRelays } from './listen-relays.ts';
import type { Catalogs } from './lists/catalogs.ts';
import { type ListChange, methodsDue } from './lists/list-changes.ts';
import type { Resolver } from './resolve/resolver.ts';
import { Listen } from './subscriptions/listen.ts';
import { LIST_FLAGS, type ListenFilter, listenFilter } from './subscriptions/listen-filter.ts';
import { type ListenMirrorDeps, mirrorListen } from './subscriptions/listen-mirror.ts';
import { missingExtension } from './tasks/task-answers.ts';

/** Resources and tasks one listen may name, and all of one principal. How many listens there may be is the edges' matter. */
const MAX_NAMES = 1_000;
const MAX_NAMES_OF_ALL = 65_536;
/** How long the acknowledgement waits for a server of which nothing is known. */
const CATALOG_WAIT_MS = 2_000;

export interface ListensDeps {
  readonly upstreams: KnownServers;
  readonly catalogs: Catalogs;
  readonly relays: ListenRelays;
  readonly mirror: ListenMirrorDeps;
}

interface Usage {
  listens: number;
  names: number;
}

/**
 * The open `subscriptions/listen` streams of stateless clients, on either kind of endpoint. List changes come from
 * what the gateway knows of its catalogues, so they outlive a server's restart; resources and tasks are relayed from
 * the servers they are of.
 */
export class Listens {
  readonly #deps: ListensDeps;
  readonly #open = new Set<Listen>();
  readonly #usage = new Map<string, Usage>();
  #draining = false;

  constructor(deps: ListensDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Runs until the client goes or the gateway ends it. Access to a server's endpoint was checked before. */
  async run(exchange: Exchange, endpoint: Endpoint, resolver: Resolver): Promise<Outcome> {
    const filter = listenFilter(exchange.request);
    if (filter instanceof GatewayError) return failure(filter);
    // SEP-2663 §Task Status Notifications.
    const undeclared = filter.taskIds.length > 0 && !declaresTasksExtension(exchange.client.capabilities);
    if (undeclared) return missingExtension();
    const refused = this.#admit(exchange, filter);
    if (refused !== null) return failure(refused);
    const { catalogs, relays } = this.#deps;
    const announced = endpoint.kind === 'aggregate' ? catalogs.of(exchange.client) : null;
    const server = endpoint.kind === 'aggregate' ? null : await this.#catalogOf(endpoint.server, exchange);
    const mirrored = filter.more && server?.handshake.era === 'stateless';
    const flags = server === null ? filter.flags : relays.declaredFlags(server, filter);
    const methods = new Set(mirrored ? [] : flags.map((flag) => LIST_FLAGS.get(flag)!));
    const listen = new Listen(exchange, endpoint, methods, announced);
    this.#open.add(listen);
    listen.onEnd(() => this.#forget(listen, filter));
    if (this.#draining) listen.complete();
    else if (mirrored) await this.#mirror(listen, filter, resolver);
    else void this.#start(listen, filter, flags, resolver);
    return listen.ended;
  }

  /** Tells each listener of the lists that changed for it, and of those that `more` names. */
  announce(changes: readonly ListChange[], now: number, more: (listen: Listen) => ReadonlySet<string>): void {
    const { catalogs, upstreams } = this.#deps;
    for (const listen of [...this.#open]) {
      for (const method of methodsDue(listen, changes, catalogs, upstreams).union(more(listen))) {
        if (!listen.methods.has(method)) continue;
        listen.notified.set(method, now);
        listen.send(notification(method, null, 'stateless'));
      }
    }
  }

  /** Agents were changed: listens of callers whose rights are others now end, to be opened anew with those. */
  reauthorize(current: (principalId: string) => Principal | null): void {
    for (const listen of [...this.#open]) {
      const { principal } = listen.client;
      const now = current(principal.id);
      if (now === null || !sameServers(principal.servers, now.servers)) listen.complete();
    }
  }

  /** Ends all of them gracefully, and every one that comes after. */
  drain(): void {
    this.#draining = true;
    for (const listen of [...this.#open]) listen.complete();
  }

  async #catalogOf(server: string, { client }: Exchange): Promise<ServerCatalog | null> {
    const { upstreams } = this.#deps;
    return upstreams.knownCatalog(server, client) ?? upstreams.catalog(server, client, CATALOG_WAIT_MS);
  }

  /** The server gets the filter as it is, once the policies have let its resources through. */
  async #mirror(listen: Listen, filter: ListenFilter, resolver: Resolver): Promise<void> {
    const refused = await this.#deps.relays.refusal(listen, filter, resolver);
    if (refused === null) mirrorListen(this.#deps.mirror, listen, listen.endpoint.server, filter);
    else listen.endWith(failure(refused));
  }

  async #start(listen: Listen, filter: ListenFilter, flags: readonly string[], resolver: Resolver): Promise<void> {
    const honoured: Record<string, unknown> = Object.fromEntries(flags.map((flag) => [flag, true]));
    try {
      const relayed = await this.#deps.relays.open(listen, filter, resolver);
      if (filter.uris.length > 0 && relayed.uris.length > 0) honoured['resourceSubscriptions'] = relayed.uris;
      if (filter.taskIds.length > 0 && relayed.taskIds.length > 0) honoured['taskIds'] = relayed.taskIds;
    } catch (cause) {
      listen.endWith(failure(new GatewayError('INTERNAL', 'Internal error', { cause })));
    }
    listen.acknowledge(JSON.stringify(honoured));
  }

  #admit({ client }: Exchange, filter: ListenFilter): GatewayError | null {
    const { id } = client.principal;
    const usage = this.#usage.get(id) ?? { listens: 0, names: 0 };
    const names = namedBy(filter);
    if (names > MAX_NAMES) {
      return new GatewayError(
        'OVERLOADED',
        `No more than ${MAX_NAMES} resources and tasks may be subscribed to in one request`,
      );
    }
    if (usage.names + names > MAX_NAMES_OF_ALL) {
      return new GatewayError(
        'OVERLOADED',
        `No more than ${MAX_NAMES_OF_ALL} resources and tasks may be subscribed to at once`,
      );
    }
    usage.listens++;
    usage.names += names;
    this.#usage.set(id, usage);
    return null;
  }

  #forget(listen: Listen, filter: ListenFilter): void {
    this.#open.delete(listen);
    const { id } = listen.client.principal;
    const usage = this.#usage.get(id)!;
    usage.listens--;
    usage.names -= namedBy(filter);
    if (usage.listens === 0) this.#usage.delete(id);
  }
}

function namedBy({ uris, taskIds }: ListenFilter): number {
  return uris.length + taskIds.length;
}

function sameServers(a: ReadonlySet<string> | null, b: ReadonlySet<string> | null): boolean {
  if (a === null || b === null) return a === b;
  return a.size === b.size && [...a].every((server) => b.has(server));
}
