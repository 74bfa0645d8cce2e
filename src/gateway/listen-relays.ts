import { parseObject } from '../catalog/catalog-member.ts';
import type { Clock } from '../model/clock.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import type { Upstreams } from '../model/ports.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import { request } from '../protocol/compose.ts';
import { LIST_METHODS } from '../protocol/methods.ts';
import type { AggregateResources } from './aggregate-resources.ts';
import { exposedUpdate } from './exposed-update.ts';
import type { Listen } from './listen.ts';
import { LIST_FLAGS, type ListenFilter } from './listen-filter.ts';
import type { ResourceWatches } from './resource-watches.ts';
import { ServerListen } from './server-listen.ts';
import type { TaskIds } from './task-ids.ts';

/** How long the acknowledgement waits for those of the servers. */
const ACK_WAIT_MS = 2_000;

export interface ListenRelaysDeps {
  readonly upstreams: Upstreams;
  readonly clock: Clock;
  readonly resources: AggregateResources;
  readonly watches: ResourceWatches;
  readonly tasks: TaskIds;
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

/**
 * The servers' side of listens: per listen and stateless server one `subscriptions/listen` of ours for the resources
 * and tasks that are that server's, opened again when it breaks; at stateful servers a `resources/subscribe` each.
 */
export class ListenRelays {
  readonly #deps: ListenRelaysDeps;

  constructor(deps: ListenRelaysDeps) {
    this.#deps = deps;
  }

  /** The list flags that a single server says it honours. */
  declaredFlags(catalog: ServerCatalog, filter: ListenFilter): readonly string[] {
    const capabilities = parseObject(catalog.hello.capabilities) ?? {};
    return filter.flags.filter((flag) => {
      const list = LIST_METHODS.find(({ changed }) => changed === LIST_FLAGS.get(flag))!;
      const declared = capabilities[list.capability] as { readonly listChanged?: unknown } | undefined;
      return declared?.listChanged === true;
    });
  }

  /** Resolves with what is honoured, when the servers have said so or have had their time. */
  async open(listen: Listen, filter: ListenFilter): Promise<Honoured> {
    const shares = await this.#shares(listen, filter);
    const honoured = await Promise.all(
      Array.from(shares, ([server, share]) => this.#relay(listen, filter, server, share)),
    );
    return { uris: honoured.flatMap(({ uris }) => uris), taskIds: honoured.flatMap(({ taskIds }) => taskIds) };
  }

  async #shares(listen: Listen, filter: ListenFilter): Promise<Map<string, Share>> {
    const shares = new Map<string, Share>();
    const shareOf = (server: string): Share => {
      let share = shares.get(server);
      if (share === undefined) shares.set(server, (share = { uris: new Map(), taskIds: new Map() }));
      return share;
    };
    const { endpoint, exchange, client } = listen;
    for (const uri of filter.uris) {
      if (endpoint.kind === 'server') {
        shareOf(endpoint.server).uris.set(uri, uri);
        continue;
      }
      const found = await this.#deps.resources.find(exchange, uri);
      if (found instanceof GatewayError) continue;
      if ('server' in found) shareOf(found.server).uris.set(found.uri, uri);
      else if (found.length === 1) shareOf(found[0]!).uris.set(uri, uri);
    }
    for (const taskId of filter.taskIds) {
      // Behind an endpoint of its own stands a stateful server here, which has no such notifications.
      if (endpoint.kind === 'server') break;
      const route = this.#deps.tasks.route(client.principal, taskId);
      if (!(route instanceof GatewayError)) shareOf(route.server).taskIds.set(route.taskId, taskId);
    }
    return shares;
  }

  async #relay(listen: Listen, filter: ListenFilter, server: string, share: Share): Promise<Honoured> {
    const { upstreams, watches } = this.#deps;
    const known =
      upstreams.knownCatalog(server, listen.client) ?? (await upstreams.catalog(server, listen.client, ACK_WAIT_MS));
    if (!listen.open || known === null) return { uris: [], taskIds: [] };
    if (known.hello.era === 'stateful') {
      const resources = parseObject(known.hello.capabilities)?.['resources'] as { subscribe?: unknown } | undefined;
      if (resources?.subscribe !== true) return { uris: [], taskIds: [] };
      return { uris: await watches.watch(listen, server, share.uris), taskIds: [] };
    }
    return new Promise<Honoured>((resolve) => {
      listen.onEnd(this.#deps.clock.after(ACK_WAIT_MS, () => resolve(everything(share))));
      new ServerListen(this.#deps, listen, server, requestOf(listen, filter, share), {
        acknowledged: (message) => resolve(honouredOf(message, share)),
        received: (message) => this.#forward(listen, server, share, message),
        answered: () => resolve({ uris: [], taskIds: [] }),
      });
    });
  }

  #forward(listen: Listen, server: string, share: Share, message: Message): void {
    if (message.method === 'notifications/resources/updated') {
      listen.send(exposedUpdate(message, (uri) => share.uris.get(uri) ?? uri));
      return;
    }
    listen.send(this.#deps.tasks.outward(message, server, listen.client.principal));
  }
}

function requestOf(listen: Listen, filter: ListenFilter, share: Share): Message {
  const wanted: Record<string, unknown> = {};
  if (share.uris.size > 0) wanted['resourceSubscriptions'] = [...share.uris.keys()];
  if (share.taskIds.size > 0) wanted['taskIds'] = [...share.taskIds.keys()];
  const params = `{"_meta":${filter.meta},"notifications":${JSON.stringify(wanted)}}`;
  return request('subscriptions/listen', listen.exchange.request.id, params, 'stateless');
}

function everything(share: Share): Honoured {
  return { uris: [...share.uris.values()], taskIds: [...share.taskIds.values()] };
}

/** What the server acknowledged, in the client's names. */
function honouredOf(message: Message, share: Share): Honoured {
  const filter = parseObject(message.body.toString())?.['notifications'] as
    | { readonly resourceSubscriptions?: unknown; readonly taskIds?: unknown }
    | undefined;
  return { uris: named(filter?.resourceSubscriptions, share.uris), taskIds: named(filter?.taskIds, share.taskIds) };
}

function named(own: unknown, names: ReadonlyMap<string, string>): string[] {
  if (!Array.isArray(own)) return [];
  return own.flatMap((name) => (typeof name === 'string' && names.has(name) ? [names.get(name)!] : []));
}
