import type { ClientProfile } from '../../model/client-profile.ts';
import { Counts } from '../../model/counts.ts';
import type { Exchange } from '../../model/exchange.ts';
import { calledOff, GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import { request } from '../../protocol/compose.ts';
import { notificationToStateful } from '../../protocol/stateful/to-stateful.ts';
import { knownSoon } from '../known-servers.ts';
import type { ListParts } from '../list-parts.ts';
import { OwnExchange } from '../own-exchange.ts';
import { isResult, ownAnswer } from '../own-results.ts';
import { sees } from '../policy/access.ts';
import { exposedUpdate, updateOf } from '../resource-updates.ts';
import { Target } from '../target.ts';
import { resourceOf } from './listen-filter.ts';
import type { Watched, Watcher } from './resource-watches.ts';
import type { Subscriber } from './shared-listens.ts';

/** Resources one session may be subscribed to, and all sessions of one principal: half of what nodes share of all principals. */
const MAX_RESOURCES = 1_000;
const MAX_OF_PRINCIPAL = 32_768;

/** The other nodes, which know subscriptions of each other in case a node ends. */
export interface SubscriptionsElsewhere {
  /** A session gives up a resource that another node may have subscribed to. */
  givenUp(sessionId: string, server: string, uri: string): void;
  /** Null where the session may subscribe to it: all nodes together know a limited number, and of a session. */
  refusal(sessionId: string, resource: Watched): GatewayError | null;
  /** A session has subscribed to a resource here. */
  subscribed(client: ClientProfile, resource: Watched): void;
  /** How many resources the sessions of a principal have subscribed to by way of other nodes, as far as is known here. */
  subscribedElsewhere(principal: string): number;
  /** The session has ended, here or at another node. */
  sessionEnded(sessionId: string): void;
}

interface SubscriptionsDeps extends ListParts {
  /** Null for a lone gateway. */
  readonly elsewhere: SubscriptionsElsewhere | null;
}

/** What one session is subscribed to by way of this node; its part in the subscriptions at stateful servers. */
interface SubscribedSession extends Watcher {
  client: ClientProfile;
  /** By server and URI, what gives it up again. */
  readonly leave: Map<string, () => void>;
  /** Further ones that a server is being asked for. */
  asking: number;
}

/**
 * `resources/subscribe` of stateful sessions: passed on to stateful servers, where it is one for all that share a
 * connection; at stateless ones a part in the shared listen stream. Updates go to the session's own stream.
 */
export class Subscriptions {
  readonly #deps: SubscriptionsDeps;
  readonly #sessions = new Map<string, SubscribedSession>();
  /** By principal, how many its sessions are subscribed to here, or are about to be. */
  readonly #counts = new Counts();

  constructor(deps: SubscriptionsDeps) {
    this.#deps = deps;
  }

  /** Passes a `resources/subscribe` or `resources/unsubscribe` on and registers it. */
  async run(target: Target, exchange: Exchange): Promise<Outcome> {
    const { upstreams, watches } = this.#deps;
    const { server, name: uri } = target;
    const { client } = exchange;
    const pass = (): Promise<Outcome> => this.#deps.dispatch.call(target, target.request, exchange);
    if (client.sessionId === null || typeof uri !== 'string') return pass();
    const resource = { server, uri, exposed: target.exposed ?? uri };
    const known = await knownSoon(upstreams, server, client);
    // Whose session has ended meanwhile has nothing that could be given up again.
    if (exchange.cancelled !== null) return failure(calledOff(server, exchange.cancelled));
    const stateless = known?.handshake.era === 'stateless';
    const name = `${server}\0${uri}`;
    if (exchange.request.method === 'resources/unsubscribe') {
      const session = this.#sessions.get(client.sessionId);
      const leave = this.#take(session, name);
      if (this.#deps.elsewhere !== null) {
        this.#deps.elsewhere.givenUp(client.sessionId, server, uri);
        // Another node has subscribed to it; other sessions here keep what they want.
        if (leave === null && watches.wanted(server, uri, client)) return ownAnswer('stateful', '');
      }
      if (!stateless) return session === undefined ? pass() : watches.unwatch(session, resource, pass);
      leave?.();
      return ownAnswer('stateful', '');
    }
    const outcome = await this.#subscribe(client, client.sessionId, resource, stateless, pass);
    // A session of a single connection ends with its node; one that has ended meanwhile is subscribed to nothing.
    const kept = this.#sessions.get(client.sessionId)?.leave.has(name) === true;
    if (kept && isResult(outcome) && client.passing !== true) this.#deps.elsewhere?.subscribed(client, resource);
    return outcome;
  }

  /**
   * Takes over what another node had subscribed to. Resolves with whether the server has agreed; then the session has got an
   * update, as it is not known what it missed.
   */
  async again(client: ClientProfile, resource: Watched): Promise<'agreed' | 'refused' | 'later'> {
    const { upstreams, dispatch, streams } = this.#deps;
    const { server, uri, exposed } = resource;
    const { sessionId } = client;
    const message = request('resources/subscribe', '0', JSON.stringify({ uri }), 'stateful');
    const exchange = new OwnExchange(`again:${server}`, message, client);
    const target = new Target(client.principal, server, 'resource', message, null, uri, exposed);
    if (sessionId === null || (await dispatch.admit(target, exchange)) !== null) return 'refused';
    const known = await knownSoon(upstreams, server, client);
    const pass = (): Promise<Outcome> => dispatch.call(target, message, exchange);
    const outcome = await this.#subscribe(client, sessionId, resource, known?.handshake.era === 'stateless', pass);
    if (outcome.kind === 'failure') return 'later';
    if (!isResult(outcome)) return 'refused';
    streams.deliver(sessionId, updateOf(exposed, 'stateful'));
    return 'agreed';
  }

  async #subscribe(
    client: ClientProfile,
    sessionId: string,
    resource: Watched,
    stateless: boolean,
    pass: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const { watches } = this.#deps;
    const { server, uri } = resource;
    const name = `${server}\0${uri}`;
    const session = this.#session(client, sessionId);
    const further = session.leave.has(name) ? 0 : 1;
    const refused = further === 0 ? null : this.#refusal(session, sessionId, resource);
    if (refused !== null) return failure(refused);
    if (stateless) return this.#joinSharedListen(session, name, resource);
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

  /** null where the session may subscribe to it too. */
  #refusal({ client, leave, asking }: SubscribedSession, sessionId: string, resource: Watched): GatewayError | null {
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

  /** By way of another node. */
  givenUp(sessionId: string, server: string, uri: string): void {
    this.#take(this.#sessions.get(sessionId), `${server}\0${uri}`)?.();
  }

  deleteSession(sessionId: string): void {
    const session = this.#sessions.get(sessionId);
    this.#sessions.delete(sessionId);
    for (const name of [...(session?.leave.keys() ?? [])]) this.#take(session, name)?.();
  }

  #joinSharedListen(session: SubscribedSession, name: string, resource: Watched): Promise<Outcome> {
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
            exposedUpdate(stateful, (own) => (own === uri ? exposed : own)),
          );
        },
      };
      const { sharedListens } = this.#deps;
      this.#keep(session, name, () => sharedListens.leave(subscriber));
      sharedListens.join(server, subscriber);
    });
  }

  /** A session that ended meanwhile keeps nothing. */
  #keep(session: SubscribedSession, name: string, leave: () => void): void {
    if (this.#sessions.get(session.client.sessionId!) === session) {
      if (!session.leave.has(name)) this.#counts.add(session.client.principal.id, 1);
      session.leave.set(name, leave);
    } else leave();
  }

  /** It is not subscribed to any more; what is to be done then, where it was. */
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
