import type { ClientProfile } from '../../model/client-profile.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { PostAnswer, StreamPost } from '../../model/stream-copies.ts';
import { PostedBodies } from '../calls/posted-bodies.ts';
import { ReturnedCalls } from '../calls/returned-calls.ts';
import type { ClusterRooms, SubscribedResource } from '../cluster-deps.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import type { LazyBucket } from '../lazy-bucket.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { ResumedStreams } from './resumed-streams.ts';
import { ownerOf, SharedSubscriptions } from './shared-subscriptions.ts';
import { CopiesOfStreams } from './stream-copies.ts';

interface GivenUp {
  readonly sessionId: string;
  readonly server: string;
  readonly uri: string;
}

const GIVEN_UP = 'trunkline.given-up';
/** A longer URI does not fit a hint and stays known at its node alone. */
const MAX_URI = 32 * 1024;

/** Leads clients to the node that has their calls, streams and subscriptions. */
export class ClientsElsewhere extends ResumedStreams {
  readonly self: string;
  /** Undefined without a shared log. */
  readonly copies: CopiesOfStreams | undefined;
  readonly subscriptions: SharedSubscriptions;
  readonly #bus: ClusterRooms['bus'];
  readonly #nodes: Nodes;
  readonly #calls: ReturnedCalls;
  readonly #posts: PostedBodies;
  readonly #givenUpHints: { close(): void };

  constructor(deps: ClusterRooms, nodes: Nodes, leases: LazyBucket) {
    super(deps, nodes, leases);
    const { bus, clock, log } = deps;
    this.self = bus.peer;
    this.copies = log === undefined ? undefined : new CopiesOfStreams(log, clock);
    this.subscriptions = new SharedSubscriptions(deps, nodes);
    this.#bus = bus;
    this.#nodes = nodes;
    this.#calls = new ReturnedCalls(deps);
    this.#posts = new PostedBodies(deps);
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
    this.subscriptions.givenUp(givenUp);
    this.#bus.publish(GIVEN_UP, packFrame(givenUp));
  }

  subscribed({ sessionId, principal }: ClientProfile, { server, uri, exposed }: SubscribedResource): void {
    if (sessionId !== null) this.subscriptions.made({ sessionId, server, uri, exposed, of: ownerOf(principal.id) });
  }

  subscribedElsewhere(principal: string): number {
    return this.subscriptions.countElsewhere(ownerOf(principal));
  }

  sessionEnded(sessionId: string): void {
    this.subscriptions.ended(sessionId);
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

  override close(): void {
    super.close();
    this.copies?.flush();
    this.subscriptions.close();
    this.#calls.close();
    this.#posts.close();
    this.#givenUpHints.close();
  }
}
