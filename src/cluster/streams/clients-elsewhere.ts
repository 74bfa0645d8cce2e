import type { Bus } from '../../bus/bus.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import type { EventSink, LeftStream, PostAnswer, Resumed, StreamPost } from '../../model/stream-copies.ts';
import { PostedBodies } from '../calls/posted-bodies.ts';
import { ReturnedCalls } from '../calls/returned-calls.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import type { LazyBucket } from '../lazy-bucket.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { NodeEnds, ResumedStreams, type StreamOwner } from './resumed-streams.ts';
import {
  ownerOf,
  type SharedSubscription,
  SharedSubscriptions,
  type SubscribedAgain,
  type SubscriptionOwner,
} from './shared-subscriptions.ts';
import { CopiesOfStreams, LeftStreams } from './stream-copies.ts';

/** The downstream side of this node, for clients of other nodes. */
interface OwnClients {
  /** Continues a call waiting for input. Never rejects. */
  returned(exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
  listening(sessionId: string): boolean;
  /** Null if the session is not here. */
  clientOf(sessionId: string): ClientProfile | null;
  posted(post: StreamPost): PostAnswer;
  fromElsewhere(sessionId: string, message: Message): void;
  /** False if it did not begin here. */
  resumeFor(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean>;
}

/** The gateway of this node. */
interface OwnSubscriptions {
  givenUp(sessionId: string, server: string, uri: string): void;
  /** Takes another node's subscription over. Never rejects. */
  subscribeAgain(client: ClientProfile, resource: Resource): Promise<SubscribedAgain>;
  mayHaveChanged(sessionId: string, exposed: string): void;
}

type Resource = Omit<SharedSubscription, 'sessionId' | 'of'>;

interface GivenUp {
  readonly sessionId: string;
  readonly server: string;
  readonly uri: string;
}

const GIVEN_UP = 'trunkline.given-up';
/** A longer URI does not fit a hint and stays known at its node alone. */
const MAX_URI = 32 * 1024;
const JUST_BEGUN: PostAnswer = { status: 404, code: CATALOGUE.INVALID_REQUEST.rpc, text: 'Session not found', id: '' };

/** Leads clients to the node that has their calls, streams and subscriptions. */
export class ClientsElsewhere implements SubscriptionOwner, StreamOwner {
  readonly self: string;
  readonly #bus: Bus;
  readonly #nodes: Nodes;
  readonly #calls: ReturnedCalls;
  readonly #posts: PostedBodies;
  readonly #streams: ResumedStreams;
  readonly #left: LeftStreams | null;
  /** Undefined without a shared log. */
  readonly copies: CopiesOfStreams | undefined;
  readonly #givenUpHints: { close(): void };
  readonly #subscriptions: SharedSubscriptions;
  #own: OwnClients | null = null;
  #ownSubscriptions: OwnSubscriptions | null = null;

  constructor(deps: ClusterDeps, nodes: Nodes, leases: LazyBucket) {
    const { bus, clock, log } = deps;
    this.self = bus.peer;
    this.#bus = bus;
    this.#nodes = nodes;
    this.#left = log === undefined ? null : new LeftStreams(log);
    this.copies = log === undefined ? undefined : new CopiesOfStreams(log, clock);
    this.#calls = new ReturnedCalls(bus, (exchange, endpoint) => this.#returned(exchange, endpoint));
    this.#posts = new PostedBodies(bus, (post) => this.#own?.posted(post) ?? JUST_BEGUN);
    this.#streams = new ResumedStreams(bus, nodes, new NodeEnds(nodes, leases, clock), this);
    this.#subscriptions = new SharedSubscriptions(deps, nodes, this);
    this.#givenUpHints = bus.subscribe(GIVEN_UP, (payload, from) => {
      if (from === bus.peer) return;
      const { sessionId, server, uri } = unpackFrame<GivenUp>(payload).header;
      this.#ownSubscriptions?.givenUp(sessionId, server, uri);
    });
  }

  /** They need this object to be constructed. */
  attach(own: OwnClients, subscriptions: OwnSubscriptions): void {
    this.#own = own;
    this.#ownSubscriptions = subscriptions;
  }

  /** To all other nodes. A hint; lost in an outage. */
  givenUp(sessionId: string, server: string, uri: string): void {
    if (uri.length > MAX_URI) return;
    const givenUp: GivenUp = { sessionId, server, uri };
    this.#subscriptions.givenUp(givenUp);
    this.#bus.publish(GIVEN_UP, packFrame(givenUp));
  }

  subscribed({ sessionId, principal }: ClientProfile, { server, uri, exposed }: Resource): void {
    if (sessionId !== null) this.#subscriptions.made({ sessionId, server, uri, exposed, of: ownerOf(principal.id) });
  }

  subscribedElsewhere(principal: string): number {
    return this.#subscriptions.countElsewhere(ownerOf(principal));
  }

  sessionEnded(sessionId: string): void {
    this.#subscriptions.ended(sessionId);
  }

  opened(sessionId: string, moved: boolean): void {
    void this.#subscriptions.opened(sessionId, moved);
  }

  message(sessionId: string, message: Message): void {
    this.#own?.fromElsewhere(sessionId, message);
  }

  gone(peer: string): void {
    this.#subscriptions.gone(peer);
  }

  has(peer: string): boolean {
    return this.#nodes.get(peer) !== null;
  }

  returned(peer: string, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    return this.#calls.run(peer, exchange, endpoint);
  }

  posted(peer: string, post: StreamPost): Promise<PostAnswer> {
    return this.#posts.post(peer, post);
  }

  isElsewhere(eventId: string): boolean {
    return this.#streams.isElsewhere(eventId);
  }

  resume(sessionId: string, afterId: string, open: () => EventSink): Promise<Resumed> {
    return this.#streams.resume(sessionId, afterId, open);
  }

  resumeAnywhere(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean> {
    return this.#streams.resumeAnywhere(sessionId, afterId, open);
  }

  async left(sessionId: string, principal: string, afterId: string): Promise<LeftStream | null> {
    return (await this.#left?.after(sessionId, principal, afterId)) ?? null;
  }

  async takeOver(left: LeftStream, asEventId: string): Promise<boolean> {
    return (await this.#left?.takeOver(left, asEventId).catch(() => false)) ?? false;
  }

  close(): void {
    this.copies?.flush();
    this.#subscriptions.close();
    this.#calls.close();
    this.#posts.close();
    this.#streams.close();
    this.#givenUpHints.close();
  }

  listening(sessionId: string): boolean {
    return this.#own?.listening(sessionId) === true;
  }

  hint({ sessionId, exposed }: SharedSubscription): void {
    this.#ownSubscriptions?.mayHaveChanged(sessionId, exposed);
  }

  drop({ sessionId, server, uri }: SharedSubscription): void {
    this.#ownSubscriptions?.givenUp(sessionId, server, uri);
  }

  async resumeFor(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean> {
    return (await this.#own?.resumeFor(sessionId, afterId, open)) ?? false;
  }

  again(subscription: SharedSubscription): Promise<SubscribedAgain> {
    const client = this.#own?.clientOf(subscription.sessionId) ?? null;
    if (client === null || this.#ownSubscriptions === null) return Promise.resolve('later');
    return this.#ownSubscriptions.subscribeAgain(client, subscription);
  }

  #returned(exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    if (this.#own !== null) return this.#own.returned(exchange, endpoint);
    return Promise.resolve(failure(new GatewayError('NOT_SENT', 'this node has only just begun')));
  }
}
