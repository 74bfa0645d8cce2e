import { aggregateHandshake } from '../catalog/aggregate-handshake.ts';
import { declaredBy } from '../catalog/catalog-member.ts';
import type { Principal } from '../model/client-profile.ts';
import { Counts } from '../model/counts.ts';
import type { Endpoint, Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import { notification } from '../protocol/compose.ts';
import { declaresTasksExtension } from '../protocol/tasks.ts';
import { knownOrListed } from './known-servers.ts';
import type { ListParts } from './list-parts.ts';
import { declaredMethods, type ListChange, methodsDue } from './lists/list-changes.ts';
import { isResult } from './own-results.ts';
import { mayKeepOpen } from './policy/access.ts';
import type { Resolver } from './resolve/resolver.ts';
import { exposedPart, exposedUpdate, isUpdate, isWithin } from './resource-updates.ts';
import { Listen } from './subscriptions/listen.ts';
import {
  LIST_FLAGS,
  type ListenFilter,
  listenFilter,
  listsHonouredBy,
  membersOf,
  resourceOf,
  taskOf,
  uriOf,
} from './subscriptions/listen-filter.ts';
import { openListen } from './subscriptions/server-listen.ts';
import type { Subscriber } from './subscriptions/shared-listens.ts';
import { Target } from './target.ts';
import { unknown } from './tasks/task-ids.ts';
import { missingExtension } from './tasks/task-views.ts';
import type { ListenedTasks, Tasks } from './tasks/tasks.ts';

/** Resources and tasks that one listen may name, and all listens of one principal. The edges limit the number of listens. */
const MAX_NAMES = 1_000;
const MAX_NAMES_OF_ALL = 65_536;
/** How long a server gets to acknowledge before the gateway acknowledges the requested list flags itself. */
const ACK_WAIT_MS = 2_000;

interface ListensDeps extends ListParts {
  readonly tasks: Tasks;
}

/** The part of one listen that concerns one server: exposed names by the server's names, both as in `Wanted`. */
type Share = Map<string, string>;

/**
 * The open `subscriptions/listen` streams of stateless clients, on either kind of endpoint. List changes are derived from the
 * gateway's catalogs, so they survive a server's restart. Resources and tasks of a stateless server use its shared listen
 * stream; the gateway subscribes to resources of stateful servers one by one.
 */
export class Listens {
  readonly #deps: ListensDeps;
  readonly #open = new Set<Listen>();
  /** The number of names in open listens, by principal. */
  readonly #names = new Counts();
  #draining = false;

  constructor(deps: ListensDeps) {
    this.#deps = deps;
  }

  /** Runs until the client disconnects or the gateway ends it. The caller has checked access to a server's endpoint. */
  async run(exchange: Exchange, endpoint: Endpoint, resolver: Resolver): Promise<Outcome> {
    const filter = listenFilter(exchange.request);
    if (filter instanceof GatewayError) return failure(filter);
    // SEP-2663 §Task Status Notifications.
    const undeclared = filter.taskIds.length > 0 && !declaresTasksExtension(exchange.client.capabilities);
    if (undeclared) return missingExtension();
    const refused = this.#admit(exchange, filter);
    if (refused !== null) return failure(refused);
    const { upstreams, catalogs } = this.#deps;
    const { client } = exchange;
    const announced = endpoint.kind === 'aggregate' ? catalogs.of(client) : null;
    const server = endpoint.kind === 'aggregate' ? null : await knownOrListed(upstreams, endpoint.server, client);
    const mirrored = filter.more && server?.handshake.era === 'stateless';
    const aggregate = announced === null ? null : aggregateHandshake(announced, 'stateless');
    const declaring = (server?.handshake ?? aggregate)?.capabilities;
    const declared = declaring === undefined ? null : declaredMethods(declaring);
    const flags = filter.flags.filter((flag) => declared === null || declared.has(LIST_FLAGS.get(flag)!));
    const methods = new Set(mirrored ? [] : flags.map((flag) => LIST_FLAGS.get(flag)!));
    const listen = new Listen(exchange, endpoint, methods, announced);
    this.#open.add(listen);
    listen.onEnd(() => this.#forget(listen, filter));
    if (this.#draining) listen.complete();
    else if (mirrored) await this.#mirror(listen, filter, resolver).catch((cause) => listen.endWith(failureOf(cause)));
    else void this.#start(listen, filter, flags, resolver);
    return listen.ended;
  }

  /** Notifies each listen of the lists that changed for it, and of the methods that `more` returns. */
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

  /** Agents changed: ends the listens of callers whose rights or key changed, so that clients reopen them with the new ones. */
  reauthorize(current: (principalId: string) => Principal | null): void {
    for (const listen of [...this.#open]) {
      const { principal } = listen.client;
      if (!mayKeepOpen(principal, current(principal.id))) listen.complete();
    }
  }

  /** Ends all listens gracefully, and every later one at once. */
  drain(): void {
    this.#draining = true;
    for (const listen of [...this.#open]) listen.complete();
  }

  /**
   * Relays a listen on the endpoint of one stateless server whose filter has members that only the server understands. After
   * the policies admit its resources, filter, acknowledgement and notifications pass unchanged. If the server's stream breaks,
   * it is reopened, and the lists are reported as changed, because notifications may be lost.
   */
  async #mirror(listen: Listen, { uris, flags, taskIds }: ListenFilter, resolver: Resolver): Promise<void> {
    const { dispatch, clock, cache, tasks } = this.#deps;
    const { exchange, endpoint } = listen;
    // The server cannot tell callers apart: it would report another caller's task.
    const { here, there } = await tasks.listen(listen, taskIds);
    if (here.length + there.length < taskIds.length) return listen.endWith(failure(unknown()));
    for (const uri of uris) {
      const found = await resolver.resource(exchange, endpoint, uri);
      const refused = found instanceof Target ? await dispatch.admit(found, exchange) : found;
      if (refused instanceof GatewayError) return listen.endWith(failure(refused));
    }
    const asked = JSON.stringify(Object.fromEntries(flags.map((flag) => [flag, true])));
    listen.onEnd(clock.after(ACK_WAIT_MS, () => listen.acknowledge(asked)));
    openListen({ dispatch, clock }, listen, endpoint.server, exchange.request, {
      acknowledged: (message) => {
        if (!listen.acknowledged) return listen.acknowledgeWith(message);
        cache.invalidate(endpoint.server, null);
        for (const method of listsHonouredBy(message, flags)) listen.send(notification(method, null, 'stateless'));
      },
      received: (message) => listen.send(message),
      answered: (outcome) => listen.endWith(outcome),
    });
  }

  async #start(listen: Listen, filter: ListenFilter, flags: readonly string[], resolver: Resolver): Promise<void> {
    const honoured: Record<string, unknown> = Object.fromEntries(flags.map((flag) => [flag, true]));
    try {
      Object.assign(honoured, membersOf(await this.#relayAll(listen, filter, resolver)));
    } catch (cause) {
      listen.endWith(failureOf(cause));
    }
    listen.acknowledge(JSON.stringify(honoured));
  }

  /** Resolves with what is honoured, in the client's names, when the servers have acknowledged or the wait is over. */
  async #relayAll(listen: Listen, filter: ListenFilter, resolver: Resolver): Promise<readonly string[]> {
    const { here, there } = await this.#deps.tasks.listen(listen, filter.taskIds);
    const shares = await this.#shares(listen, filter, there, resolver);
    const honoured = await Promise.all(Array.from(shares, ([server, share]) => this.#relay(listen, server, share)));
    return [...here.map(taskOf), ...honoured.flat()];
  }

  async #shares(
    listen: Listen,
    filter: ListenFilter,
    tasks: ListenedTasks['there'],
    resolver: Resolver,
  ): Promise<Map<string, Share>> {
    const shares = new Map<string, Share>();
    const add = (server: string, own: string, exposed: string) => {
      shares.set(server, (shares.get(server) ?? new Map<string, string>()).set(own, exposed));
    };
    const { endpoint, exchange } = listen;
    for (const uri of filter.uris) {
      const found = await resolver.resource(exchange, endpoint, uri);
      if (found instanceof GatewayError) continue;
      const targets: readonly Target[] = found instanceof Target ? [found] : found;
      const [target] = targets;
      if (targets.length !== 1 || (await this.#deps.dispatch.admit(target!, exchange)) !== null) continue;
      add(target!.server, resourceOf(target!.name as string), resourceOf(uri));
    }
    for (const { server, own, exposed } of tasks) add(server, taskOf(own), taskOf(exposed));
    return shares;
  }

  async #relay(listen: Listen, server: string, share: Share): Promise<readonly string[]> {
    const { upstreams, sharedListens } = this.#deps;
    const known = await knownOrListed(upstreams, server, listen.client);
    if (!listen.open || known === null) return [];
    const { handshake } = known;
    if (handshake.era === 'stateful')
      return declaredBy(handshake).subscribe ? this.#watched(listen, server, share) : [];
    return new Promise((resolve) => {
      const subscriber: Subscriber = {
        client: listen.client,
        wanted: new Set(share.keys()),
        settled: (honoured) => resolve([...honoured].flatMap((own) => share.get(own) ?? [])),
        received: (message) => this.#forward(listen, server, share, message),
      };
      sharedListens.join(server, subscriber);
      listen.onEnd(() => {
        sharedListens.leave(subscriber);
        resolve([]);
      });
    });
  }

  /** Resolves with those of the resources that the stateful server accepted. */
  async #watched(listen: Listen, server: string, share: Share): Promise<readonly string[]> {
    const { watches } = this.#deps;
    const agreed = await Promise.all(
      Array.from(share, async ([own, exposed]) => {
        const [uri, name] = [uriOf(own), uriOf(exposed)];
        if (uri === null || name === null) return [];
        const resource = { server, uri, exposed: name };
        if (!isResult(await watches.watch(listen, resource))) return [];
        listen.onEnd(() => watches.leave(listen, resource));
        return [exposed];
      }),
    );
    return agreed.flat();
  }

  #forward(listen: Listen, server: string, share: Share, message: Message): void {
    const { ids } = this.#deps.tasks;
    if (isUpdate(message)) listen.send(exposedUpdate(message, (own) => exposedIn(share, server, own)));
    else listen.send(ids.outward(message, server, listen.client.principal, listen.endpoint));
  }

  #admit({ client }: Exchange, filter: ListenFilter): GatewayError | null {
    const { id } = client.principal;
    const names = namedBy(filter);
    if (names > MAX_NAMES) return tooMany(`${MAX_NAMES} resources and tasks may be subscribed to in one request`);
    if (this.#names.of(id) + names > MAX_NAMES_OF_ALL) {
      return tooMany(`${MAX_NAMES_OF_ALL} resources and tasks may be subscribed to at once`);
    }
    this.#names.add(id, names);
    return null;
  }

  #forget(listen: Listen, filter: ListenFilter): void {
    this.#open.delete(listen);
    this.#names.add(listen.client.principal.id, -namedBy(filter));
  }
}

/** The exposed URI of a resource of the share, or of a part of one. */
function exposedIn(share: Share, server: string, own: string): string {
  const name = resourceOf(own);
  const subscribed = share.has(name) ? name : share.keys().find((one) => isWithin(name, one));
  const [uri, exposed] = [subscribed, share.get(subscribed ?? '')].map((one) => uriOf(one ?? ''));
  return uri == null || exposed == null ? own : exposedPart(own, { server, uri, exposed });
}

function failureOf(cause: unknown): Outcome {
  return failure(cause instanceof GatewayError ? cause : new GatewayError('INTERNAL', 'Internal error', { cause }));
}

function tooMany(what: string): GatewayError {
  return new GatewayError('OVERLOADED', `No more than ${what}`);
}

function namedBy({ uris, taskIds }: ListenFilter): number {
  return uris.length + taskIds.length;
}
