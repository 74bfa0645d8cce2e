import { parseObject } from '../catalog/catalog-member.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import { request } from '../protocol/compose.ts';
import type { Dispatch } from './dispatch/dispatch.ts';
import type { KnownServers } from './known-servers.ts';
import { declaredMethods } from './lists/list-changes.ts';
import { OwnExchange } from './own-exchange.ts';
import type { Resolver } from './resolve/resolver.ts';
import { exposedUpdate } from './subscriptions/exposed-update.ts';
import type { Listen } from './subscriptions/listen.ts';
import { LIST_FLAGS, type ListenFilter } from './subscriptions/listen-filter.ts';
import type { ResourceWatches } from './subscriptions/resource-watches.ts';
import type { SharedListens } from './subscriptions/shared-listens.ts';
import { Target } from './target.ts';
import type { TaskIds } from './tasks/task-ids.ts';
import type { ListenedTasks, TaskListens } from './tasks/task-listens.ts';

/** How long a server of which nothing is known is waited for. */
const CATALOG_WAIT_MS = 2_000;

export interface ListenRelaysDeps {
  readonly upstreams: KnownServers;
  readonly dispatch: Dispatch;
  readonly watches: ResourceWatches;
  readonly sharedListens: SharedListens;
  readonly tasks: TaskIds;
  readonly listened: TaskListens;
}

/** What of one listen is of one server: by the server's own name, what the client calls it. */
interface Share {
  readonly uris: Map<string, string>;
  readonly taskIds: Map<string, string>;
}

export interface Honoured {
  readonly uris: readonly string[];
  readonly taskIds: readonly string[];
}

const NOTHING: Honoured = { uris: [], taskIds: [] };

/**
 * The servers' side of listens: resources and tasks of a stateless server come on its shared listen stream; resources of
 * stateful servers are subscribed to one by one.
 */
export class ListenRelays {
  readonly #deps: ListenRelaysDeps;

  constructor(deps: ListenRelaysDeps) {
    this.#deps = deps;
  }

  /** The list flags that a single server says it honours. */
  declaredFlags(catalog: ServerCatalog, filter: ListenFilter): readonly string[] {
    const declared = declaredMethods(catalog);
    return filter.flags.filter((flag) => declared.has(LIST_FLAGS.get(flag)!));
  }

  /** Resolves with what is honoured, when the servers have said so or have had their time. */
  async open(listen: Listen, filter: ListenFilter, resolver: Resolver): Promise<Honoured> {
    const tasks = this.#deps.listened.open(listen, filter.taskIds);
    const shares = await this.#shares(listen, filter, tasks, resolver);
    const honoured = await Promise.all(Array.from(shares, ([server, share]) => this.#relay(listen, server, share)));
    const relayed = honoured.flatMap(({ taskIds }) => taskIds);
    return { uris: honoured.flatMap(({ uris }) => uris), taskIds: [...tasks.here, ...relayed] };
  }

  /** The first refusal of the resources that are named. */
  async refusal(
    { exchange, endpoint }: Listen,
    { uris }: ListenFilter,
    resolver: Resolver,
  ): Promise<GatewayError | null> {
    for (const uri of uris) {
      const found = await resolver.resource(exchange, endpoint, uri);
      const refused = found instanceof Target ? await this.#deps.dispatch.admit(found, exchange) : found;
      if (refused instanceof GatewayError) return refused;
    }
    return null;
  }

  async #shares(
    listen: Listen,
    filter: ListenFilter,
    tasks: ListenedTasks,
    resolver: Resolver,
  ): Promise<Map<string, Share>> {
    const shares = new Map<string, Share>();
    const shareOf = (server: string): Share => {
      let share = shares.get(server);
      if (share === undefined) shares.set(server, (share = { uris: new Map(), taskIds: new Map() }));
      return share;
    };
    const { endpoint, exchange } = listen;
    for (const uri of filter.uris) {
      const found = await resolver.resource(exchange, endpoint, uri);
      if (found instanceof GatewayError) continue;
      const targets: readonly Target[] = found instanceof Target ? [found] : found;
      const [target] = targets;
      if (targets.length !== 1 || (await this.#deps.dispatch.admit(target!, exchange)) !== null) continue;
      shareOf(target!.server).uris.set(target!.name as string, uri);
    }
    for (const [server, taskIds] of tasks.there) {
      for (const [own, taskId] of taskIds) shareOf(server).taskIds.set(own, taskId);
    }
    return shares;
  }

  async #relay(listen: Listen, server: string, share: Share): Promise<Honoured> {
    const { upstreams, sharedListens } = this.#deps;
    const known =
      upstreams.knownCatalog(server, listen.client) ??
      (await upstreams.catalog(server, listen.client, CATALOG_WAIT_MS));
    if (!listen.open || known === null) return NOTHING;
    if (known.handshake.era === 'stateful') {
      const resources = parseObject(known.handshake.capabilities)?.['resources'] as { subscribe?: unknown } | undefined;
      if (resources?.subscribe !== true) return NOTHING;
      return { uris: await this.#watched(listen, server, share.uris), taskIds: [] };
    }
    return new Promise<Honoured>((resolve) => {
      const leave = sharedListens.join(server, {
        client: listen.client,
        wanted: { uris: new Set(share.uris.keys()), taskIds: new Set(share.taskIds.keys()) },
        settled: ({ uris, taskIds }) =>
          resolve({ uris: named(uris, share.uris), taskIds: named(taskIds, share.taskIds) }),
        received: (message) => this.#forward(listen, server, share, message),
      });
      listen.onEnd(leave);
      listen.onEnd(() => resolve(NOTHING));
    });
  }

  /** Resolves with those of the client's URIs that the stateful server agreed to. */
  async #watched(listen: Listen, server: string, uris: ReadonlyMap<string, string>): Promise<string[]> {
    const { dispatch, watches } = this.#deps;
    const agreed = await Promise.all(
      Array.from(uris, async ([uri, exposed]) => {
        const message = request('resources/subscribe', '0', JSON.stringify({ uri }), 'stateful');
        const own = new OwnExchange(listen.exchange.id, message, listen.client);
        const target = new Target(listen.client.principal, server, 'resource', message, null, uri, exposed);
        const outcome = await watches.watch(listen, { server, uri, exposed }, () =>
          dispatch.call(target, message, own),
        );
        if (outcome.kind !== 'answer' || outcome.message.kind !== 'result') return [];
        listen.onEnd(() => watches.leave(listen, { server, uri }));
        return [exposed];
      }),
    );
    return agreed.flat();
  }

  #forward(listen: Listen, server: string, share: Share, message: Message): void {
    if (message.method === 'notifications/resources/updated') {
      listen.send(exposedUpdate(message, (uri) => share.uris.get(uri) ?? uri));
      return;
    }
    // On a server's own endpoint its task ids are its own.
    const own = listen.endpoint.kind === 'server';
    listen.send(own ? message : this.#deps.tasks.outward(message, server, listen.client.principal));
  }
}

function named(own: ReadonlySet<string>, names: ReadonlyMap<string, string>): string[] {
  return [...own].flatMap((name) => names.get(name) ?? []);
}
