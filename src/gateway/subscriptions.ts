import type { Exchange } from '../model/exchange.ts';
import type { Message } from '../model/message.ts';
import type { Outcome } from '../model/outcome.ts';
import type { Upstreams } from '../model/ports.ts';
import { ownAnswer } from './own-results.ts';
import type { SessionWatches, Subscribed } from './session-watches.ts';

const NOBODY: ReadonlyMap<string, string> = new Map();

/**
 * Which stateful session subscribed to which resource, and under what URI it knows it. Needed where an update comes
 * over a connection that is not one session's, and to know when nobody is left who wants it.
 */
export class Subscriptions {
  readonly #upstreams: Upstreams;
  readonly #watches: SessionWatches;
  readonly #byResource = new Map<string, Map<string, string>>();
  readonly #bySession = new Map<string, Set<string>>();

  constructor(upstreams: Upstreams, watches: SessionWatches) {
    this.#upstreams = upstreams;
    this.#watches = watches;
  }

  /** Passes a `resources/subscribe` or `resources/unsubscribe` on (with the server's URI in it) and keeps the books. */
  async run(resource: Subscribed, request: Message, exchange: Exchange): Promise<Outcome> {
    const { server, uri } = resource;
    const { sessionId } = exchange.client;
    if (sessionId !== null && this.#upstreams.knownCatalog(server, exchange.client)?.hello.era === 'stateless') {
      const subscribing = request.method === 'resources/subscribe';
      return subscribing
        ? this.#watches.subscribe(resource, exchange, sessionId)
        : this.#watches.unsubscribe(resource, sessionId);
    }
    if (sessionId !== null && request.method === 'resources/unsubscribe') {
      this.#delete(keyOf(server, uri), sessionId);
      const shared = !this.#upstreams.ownsConnection(server, exchange.client);
      if (shared && this.of(server, uri).size > 0) return ownAnswer('stateful', '');
    }
    const outcome = await this.#upstreams.call(server, request, exchange);
    const agreed = outcome.kind === 'answer' && outcome.message.kind === 'result';
    if (sessionId !== null && agreed && request.method === 'resources/subscribe') this.#add(resource, sessionId);
    return outcome;
  }

  /** Subscribed sessions, each with the URI it used. */
  of(server: string, uri: string): ReadonlyMap<string, string> {
    return this.#byResource.get(keyOf(server, uri)) ?? NOBODY;
  }

  deleteSession(sessionId: string): void {
    for (const key of this.#bySession.get(sessionId) ?? []) this.#delete(key, sessionId);
    this.#bySession.delete(sessionId);
    this.#watches.deleteSession(sessionId);
  }

  #add({ server, uri, exposed }: Subscribed, sessionId: string): void {
    const key = keyOf(server, uri);
    const subscribers = this.#byResource.get(key);
    if (subscribers === undefined) this.#byResource.set(key, new Map([[sessionId, exposed]]));
    else subscribers.set(sessionId, exposed);
    const resources = this.#bySession.get(sessionId);
    if (resources === undefined) this.#bySession.set(sessionId, new Set([key]));
    else resources.add(key);
  }

  #delete(key: string, sessionId: string): void {
    this.#bySession.get(sessionId)?.delete(key);
    const subscribers = this.#byResource.get(key);
    subscribers?.delete(sessionId);
    if (subscribers?.size === 0) this.#byResource.delete(key);
  }
}

function keyOf(server: string, uri: string): string {
  return `${server}\0${uri}`;
}
