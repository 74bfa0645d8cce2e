import type { Bus } from '../../bus/bus.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
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
export interface OwnClients {
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
export interface OwnSubscriptions {
  givenUp(sessionId: string, server: string, uri: string): void;
  /** Takes another node's subscription over. Never rejects. */
  subscribeAgain(client: ClientProfile, resource: Resource): Promise<SubscribedAgain>;
  mayHaveChanged(sessionId: string, exposed: string): void;
}

/** This node's side of its clients. It needs this object to be constructed, and is read later. */
interface OwnSide {
  readonly downstream: OwnClients;
  readonly gateway: OwnSubscriptions;
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
  readonly #own: OwnSide;

  constructor(deps: ClusterDeps & OwnSide, nodes: Nodes, leases: LazyBucket) {
    const { bus, clock, log } = deps;
    this.self = bus.peer;
    this.#own = deps;
    this.#bus = bus;
    this.#nodes = nodes;
    this.#left = log === undefined ? null : new LeftStreams(log);
    this.copies = log === undefined ? undefined : new CopiesOfStreams(log, clock);
    this.#calls = new ReturnedCalls(bus, (exchange, endpoint) => deps.downstream.returned(exchange, endpoint));
    this.#posts = new PostedBodies(bus, (post) => deps.downstream.posted(post));
    this.#streams = new ResumedStreams(bus, nodes, new NodeEnds(nodes, leases, clock), this);
    this.#subscriptions = new SharedSubscriptions(deps, nodes, this);
    this.#givenUpHints = bus.subscribe(GIVEN_UP, (payload, from) => {
      if (from === bus.peer) return;
      const { sessionId, server, uri } = unpackFrame<GivenUp>(payload).header;
      deps.gateway.givenUp(sessionId, server, uri);
    });
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
    this.#own.downstream.fromElsewhere(sessionId, message);
  }

  gone(peer: string): void {
    this.#subscriptions.nodeGone(peer);
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
    return this.#own.downstream.listening(sessionId);
  }

  hint({ sessionId, exposed }: SharedSubscription): void {
    this.#own.gateway.mayHaveChanged(sessionId, exposed);
  }

  drop({ sessionId, server, uri }: SharedSubscription): void {
    this.#own.gateway.givenUp(sessionId, server, uri);
  }

  resumeFor(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean> {
    return this.#own.downstream.resumeFor(sessionId, afterId, open);
  }

  again(subscription: SharedSubscription): Promise<SubscribedAgain> {
    const { downstream, gateway } = this.#own;
    const client = downstream.clientOf(subscription.sessionId);
    return client === null ? Promise.resolve('later') : gateway.subscribeAgain(client, subscription);
  }
}
