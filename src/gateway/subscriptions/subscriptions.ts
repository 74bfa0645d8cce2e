import type { ClientProfile } from '../../model/client-profile.ts';
import { Counts } from '../../model/counts.ts';
import type { Exchange } from '../../model/exchange.ts';
import { cancelledBeforeSend, GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { SubscribedAgain, SubscribedResource } from '../../model/ports.ts';
import { request } from '../../protocol/compose.ts';
import { notificationToStateful } from '../../protocol/stateful/to-stateful.ts';
import { knownOrListed } from '../known-servers.ts';
import type { ListParts } from '../list-parts.ts';
import { OwnExchange } from '../own-exchange.ts';
import { isResult, ownAnswer } from '../own-results.ts';
import { sees } from '../policy/access.ts';
import { exposedPart, exposedUpdate, updateOf } from '../resource-updates.ts';
import { Target } from '../target.ts';
import { resourceOf } from './listen-filter.ts';
import type { Watcher } from './resource-watches.ts';
import type { Subscriber } from './shared-listens.ts';

/** Subscriptions of one session, and of all sessions of one principal: half of what nodes share for all principals. */
const MAX_RESOURCES = 1_000;
const MAX_OF_PRINCIPAL = 32_768;
/** A subscription keeps its URI. */
const MAX_URI = 8 * 1024;

/**
 * Where the subscriptions of sessions outlive this process: at the other nodes, which take over those of a lost node; without a
 * cluster in the data folder, for the next process.
 */
export interface SubscriptionsElsewhere {
  /** A session unsubscribes from a resource to which another node or process may have subscribed. */
  givenUp(sessionId: string, server: string, uri: string): void;
  /** null if the session may subscribe to it; the nodes also share a limit for all sessions. */
  refusal(sessionId: string, resource: SubscribedResource): GatewayError | null;
  /** A session has subscribed to a resource here. */
  subscribed(client: ClientProfile, resource: SubscribedResource): void;
  /** The number of subscriptions of a principal's sessions that this process has not made, as far as it knows. */
  subscribedElsewhere(principal: string): number;
  /** The session has ended, here or at another node. */
  sessionEnded(sessionId: string): void;
}

interface SubscriptionsDeps extends ListParts {
  /** null if they end with this process. */
  readonly elsewhere: SubscriptionsElsewhere | null;
}

/** The subscriptions of one session through this node; as a `Watcher`, it takes part in those at stateful servers. */
interface SubscribedSession extends Watcher {
  client: ClientProfile;
  /** By server and URI, the function that unsubscribes. */
  readonly leave: Map<string, () => void>;
  /** Number of further subscribe requests in flight. */
  asking: number;
}

/**
 * `resources/subscribe` of stateful sessions: at stateful servers one subscription for all that share a connection; at
 * stateless ones a part of the shared listen stream. Updates go to the session's own stream.
 */
export class Subscriptions {
  readonly #deps: SubscriptionsDeps;
  readonly #sessions = new Map<string, SubscribedSession>();
  /** The number of subscriptions by principal, with those that are being requested. */
  readonly #counts = new Counts();

  constructor(deps: SubscriptionsDeps) {
    this.#deps = deps;
  }

  /** Forwards a `resources/subscribe` or `resources/unsubscribe` and records it. */
  async run(target: Target, exchange: Exchange): Promise<Outcome> {
    const { upstreams, watches } = this.#deps;
    const { server, name: uri } = target;
    const { client } = exchange;
    const pass = (): Promise<Outcome> => this.#deps.dispatch.call(target, target.request, exchange);
    if (client.sessionId === null || typeof uri !== 'string') return pass();
    const resource = { server, uri, exposed: target.exposed ?? uri };
    const known = await knownOrListed(upstreams, server, client);
    // If the session has ended meanwhile, nothing would end a subscription.
    if (exchange.cancelled !== null) return failure(cancelledBeforeSend(server, exchange.cancelled));
    const stateless = known?.handshake.era === 'stateless';
    const name = `${server}\0${uri}`;
    if (exchange.request.method === 'resources/unsubscribe') {
      const session = this.#sessions.get(client.sessionId);
      const leave = this.#take(session, name);
      if (this.#deps.elsewhere !== null) {
        this.#deps.elsewhere.givenUp(client.sessionId, server, uri);
        // Another node or process has subscribed to it; other sessions here keep their subscription.
        if (leave === null && watches.wanted(server, uri, client)) return ownAnswer('stateful', '');
      }
      if (!stateless) return session === undefined ? pass() : watches.unwatch(session, resource, pass);
      leave?.();
      return ownAnswer('stateful', '');
    }
    const outcome = await this.#subscribe(exchange, client.sessionId, resource, stateless, pass);
    // A session of a single connection ends with its process; one that has ended meanwhile has no subscriptions.
    const kept = this.#sessions.get(client.sessionId)?.leave.has(name) === true;
    if (kept && isResult(outcome) && client.passing !== true) this.#deps.elsewhere?.subscribed(client, resource);
    return outcome;
  }

  /**
   * Takes over a subscription of another node or process. Resolves with whether the server accepted; if so, the session has got
   * an update, because it may have missed some.
   */
  async resubscribe(client: ClientProfile, resource: SubscribedResource): Promise<SubscribedAgain> {
    const { upstreams, dispatch, streams } = this.#deps;
    const { server, uri, exposed } = resource;
    const { sessionId } = client;
    const message = request('resources/subscribe', '0', JSON.stringify({ uri }), 'stateful');
    const exchange = new OwnExchange(`again:${server}`, message, client);
    const target = new Target(client.principal, server, 'resource', message, null, uri, exposed);
    if (sessionId === null) return 'refused';
    const session = this.#session(client, sessionId);
    if ((await dispatch.admit(target, exchange)) !== null) return 'refused';
    const known = await knownOrListed(upstreams, server, client);
    // The session has ended meanwhile.
    if (this.#sessions.get(sessionId) !== session) return 'refused';
    const pass = (): Promise<Outcome> => dispatch.call(target, message, exchange);
    const outcome = await this.#subscribe(exchange, sessionId, resource, known?.handshake.era === 'stateless', pass);
    if (outcome.kind === 'failure') return 'later';
    if (!isResult(outcome)) return 'refused';
    streams.deliver(sessionId, updateOf(exposed, 'stateful'));
    return 'agreed';
  }

  async #subscribe(
    exchange: Exchange,
    sessionId: string,
    resource: SubscribedResource,
    stateless: boolean,
    pass: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const { watches } = this.#deps;
    const { client } = exchange;
    const { server, uri } = resource;
    const name = `${server}\0${uri}`;
    const session = this.#session(client, sessionId);
    const further = session.leave.has(name) ? 0 : 1;
    const refused = further === 0 ? null : this.#refusal(session, sessionId, resource);
    if (refused !== null) return failure(refused);
    if (stateless) return this.#joinSharedListen(session, name, resource, exchange);
    session.asking += further;
    this.#counts.add(client.principal.id, further);
    try {
      const outcome = await watches.watch(session, resource, pass);
      if (isResult(outcome)) this.#keep(session, name, () => watches.leave(session, resource));
      return outcome;
    } finally {
      session.asking -= further;
      this.#counts.add(client.principal.id, -further);
    }
  }

  /** Returns null if the session may subscribe to one more resource. */
  #refusal(
    { client, leave, asking }: SubscribedSession,
    sessionId: string,
    resource: SubscribedResource,
  ): GatewayError | null {
    if (resource.uri.length > MAX_URI) {
      return new GatewayError(
        'INVALID_PARAMS',
        `No resource with a URI of more than ${MAX_URI} characters can be subscribed to`,
      );
    }
    const { elsewhere } = this.#deps;
    const { id } = client.principal;
    if (leave.size + asking >= MAX_RESOURCES) {
      const text = `No more than ${MAX_RESOURCES} resources may be subscribed to in one session: give up others first`;
      return new GatewayError('OVERLOADED', text);
    }
    const all = this.#counts.of(id) + (elsewhere?.subscribedElsewhere(id) ?? 0);
    if (all < MAX_OF_PRINCIPAL)
      return client.passing === true ? null : (elsewhere?.refusal(sessionId, resource) ?? null);
    const text = `No more than ${MAX_OF_PRINCIPAL} resources may be subscribed to at once in all sessions of one caller: give up others first, or end sessions`;
    return new GatewayError('OVERLOADED', text);
  }

  /** Whether the session is subscribed to the resource through this node. */
  has(sessionId: string | null, { server, name }: Pick<Target, 'server' | 'name'>): boolean {
    return this.#sessions.get(sessionId ?? '')?.leave.has(`${server}\0${name}`) === true;
  }

  /** The session unsubscribed through another node. */
  givenUp(sessionId: string, server: string, uri: string): void {
    this.#take(this.#sessions.get(sessionId), `${server}\0${uri}`)?.();
  }

  deleteSession(sessionId: string): void {
    const session = this.#sessions.get(sessionId);
    this.#sessions.delete(sessionId);
    for (const name of [...(session?.leave.keys() ?? [])]) this.#take(session, name)?.();
  }

  #joinSharedListen(
    session: SubscribedSession,
    name: string,
    resource: SubscribedResource,
    exchange: Exchange,
  ): Promise<Outcome> {
    const { server, uri, exposed } = resource;
    if (session.leave.has(name)) return Promise.resolve(ownAnswer('stateful', ''));
    return new Promise((resolve) => {
      const subscriber: Subscriber = {
        client: session.client,
        wanted: new Set([resourceOf(uri)]),
        settled: (honoured, refusal) => {
          if (honoured.size > 0) return resolve(ownAnswer('stateful', ''));
          resolve(refusal ?? failure(notHonoured(exposed)));
          this.#take(session, name)?.();
        },
        received: (update) => {
          const stateful = notificationToStateful(update);
          if (stateful === null) return;
          session.updated(
            server,
            exposedUpdate(stateful, (own) => exposedPart(own, resource)),
          );
        },
      };
      const { sharedListens } = this.#deps;
      this.#keep(session, name, () => {
        sharedListens.leave(subscriber);
        // Nothing else ends a request that the server has not acknowledged yet.
        resolve(failure(new GatewayError('CANCELLED', 'the subscription ended before the server took it', { server })));
      });
      exchange.onCancel = () => this.#take(session, name)?.();
      sharedListens.join(server, subscriber);
    });
  }

  /** Records a subscription; ends it at once if the session has ended meanwhile. */
  #keep(session: SubscribedSession, name: string, leave: () => void): void {
    if (this.#sessions.get(session.client.sessionId!) === session) {
      if (!session.leave.has(name)) this.#counts.add(session.client.principal.id, 1);
      session.leave.set(name, leave);
    } else leave();
  }

  /** Removes a subscription; returns the function that unsubscribes, null if there was none. */
  #take(session: SubscribedSession | undefined, name: string): (() => void) | null {
    const leave = session?.leave.get(name) ?? null;
    if (session?.leave.delete(name) === true) this.#counts.add(session.client.principal.id, -1);
    return leave;
  }

  #session(client: ClientProfile, sessionId: string): SubscribedSession {
    let session = this.#sessions.get(sessionId);
    if (session === undefined) {
      const updated = (server: string, message: Message) => {
        const { principal } = this.#deps.sessions.get(sessionId)?.client ?? session!.client;
        if (sees(principal, server)) this.#deps.streams.deliver(sessionId, message);
      };
      this.#sessions.set(sessionId, (session = { client, leave: new Map(), asking: 0, updated }));
    }
    session.client = client;
    return session;
  }
}

function notHonoured(uri: string): GatewayError {
  return new GatewayError('INVALID_PARAMS', `The server does not take a subscription to ${uri}`);
}
