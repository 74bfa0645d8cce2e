import { parseObject } from '../catalog/catalog-member.ts';
import type { ClientProfile } from '../model/client-profile.ts';
import type { Clock } from '../model/clock.ts';
import type { Exchange } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { failure, type Outcome } from '../model/outcome.ts';
import type { ClientStreams, Upstreams } from '../model/ports.ts';
import { request } from '../protocol/compose.ts';
import { notificationToStateful } from '../protocol/stateful/to-stateful.ts';
import { exposedUpdate } from './exposed-update.ts';
import { ownAnswer } from './own-results.ts';
import { type ListenOwner, ServerListen } from './server-listen.ts';

/** How long a `resources/subscribe` waits for the server's acknowledgement. */
const ACK_WAIT_MS = 2_000;

export interface SessionWatchesDeps {
  readonly upstreams: Upstreams;
  readonly streams: ClientStreams;
  readonly clock: Clock;
}

/** A resource as a session asked for it. */
export interface Subscribed {
  readonly server: string;
  /** The server's own URI. */
  readonly uri: string;
  readonly exposed: string;
}

/** One resource of a stateless server that one session subscribed to. */
class Watch implements ListenOwner {
  readonly id: string;
  readonly client: ClientProfile;
  open = true;
  readonly #cleanUp: (() => void)[] = [];

  constructor(exchange: Exchange) {
    this.id = exchange.id;
    this.client = exchange.client;
  }

  onEnd(cleanUp: () => void): void {
    if (this.open) this.#cleanUp.push(cleanUp);
    else cleanUp();
  }

  end(): void {
    this.open = false;
    for (const cleanUp of this.#cleanUp.splice(0)) cleanUp();
  }
}

/**
 * Resources of stateless servers that stateful sessions subscribed to (protocol.md §2): a `subscriptions/listen` per
 * session and resource, whose updates go to that session's own stream.
 */
export class SessionWatches {
  readonly #deps: SessionWatchesDeps;
  readonly #watches = new Map<string, Map<string, Watch>>();

  constructor(deps: SessionWatchesDeps) {
    this.#deps = deps;
  }

  async subscribe(resource: Subscribed, exchange: Exchange, sessionId: string): Promise<Outcome> {
    const { server, uri, exposed } = resource;
    const watches = this.#watches.get(sessionId) ?? new Map<string, Watch>();
    this.#watches.set(sessionId, watches);
    const key = keyOf(resource);
    if (watches.has(key)) return ownAnswer('stateful', '');
    const watch = new Watch(exchange);
    watches.set(key, watch);
    const params = JSON.stringify({ notifications: { resourceSubscriptions: [uri] } });
    // Upstream puts it in the server's words, with what the session said of itself.
    const message = request('subscriptions/listen', '0', params, 'stateful');
    const refusal = await new Promise<Outcome | null>((resolve) => {
      watch.onEnd(this.#deps.clock.after(ACK_WAIT_MS, () => resolve(null)));
      new ServerListen(this.#deps, watch, server, message, {
        acknowledged: ({ body }) => resolve(honours(body, uri) ? null : failure(notHonoured(exposed))),
        received: (update) => {
          const stateful = notificationToStateful(update);
          if (stateful === null) return;
          this.#deps.streams.deliver(
            sessionId,
            exposedUpdate(stateful, (own) => (own === uri ? exposed : own)),
          );
        },
        answered: (outcome) => {
          this.#end(sessionId, key);
          resolve(outcome);
        },
      });
    });
    if (refusal === null) return ownAnswer('stateful', '');
    this.#end(sessionId, key);
    return refusal;
  }

  unsubscribe(resource: Subscribed, sessionId: string): Outcome {
    this.#end(sessionId, keyOf(resource));
    return ownAnswer('stateful', '');
  }

  deleteSession(sessionId: string): void {
    for (const watch of this.#watches.get(sessionId)?.values() ?? []) watch.end();
    this.#watches.delete(sessionId);
  }

  #end(sessionId: string, key: string): void {
    const watches = this.#watches.get(sessionId);
    watches?.get(key)?.end();
    watches?.delete(key);
  }
}

function honours(acknowledgement: Buffer, uri: string): boolean {
  const filter = parseObject(acknowledgement.toString())?.['notifications'] as
    | { readonly resourceSubscriptions?: unknown }
    | undefined;
  return Array.isArray(filter?.resourceSubscriptions) && filter.resourceSubscriptions.includes(uri);
}

function notHonoured(uri: string): GatewayError {
  return new GatewayError('INVALID_PARAMS', `The server does not take a subscription to ${uri}`);
}

function keyOf({ server, uri }: Subscribed): string {
  return `${server}\0${uri}`;
}
