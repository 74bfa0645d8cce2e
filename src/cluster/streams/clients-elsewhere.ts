import type { BusServing } from '../../bus/bus.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { PostAnswer, StreamPost } from '../../model/stream-copies.ts';
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

const POSTED = 'trunkline.posted';
const MAX_POSTS = 10_000;
const POST_MS = 10_000;
const GIVEN_UP = 'trunkline.given-up';
/** A longer URI does not fit a hint and stays known at its node alone. */
const MAX_URI = 32 * 1024;

/** Leads clients to the node that has their calls, streams and subscriptions. */
export class ClientsElsewhere extends ResumedStreams {
  readonly self: string;
  /** Undefined without a shared log. */
  readonly copies: CopiesOfStreams | undefined;
  readonly subscriptions: SharedSubscriptions;
  readonly #calls: ReturnedCalls;
  readonly #registrations: readonly { close(): void }[];

  constructor(deps: ClusterRooms, nodes: Nodes, leases: LazyBucket) {
    super(deps, nodes, leases);
    const { bus, clock, log } = deps;
    this.self = bus.peer;
    this.copies = log === undefined ? undefined : new CopiesOfStreams(log, clock);
    this.subscriptions = new SharedSubscriptions(deps, nodes);
    this.#calls = new ReturnedCalls(deps);
    const posted = (serving: BusServing): void => {
      const { header, pieces } = unpackFrame<Omit<StreamPost, 'body'>>(serving.payload);
      const { sessionId, principal, endpoint } = header;
      serving.answer(packFrame(deps.downstream.posted({ sessionId, principal, endpoint, body: pieces[0]! })));
    };
    this.#registrations = [
      bus.serve(POSTED, posted, { concurrency: MAX_POSTS }),
      bus.subscribe(GIVEN_UP, (payload, from) => {
        if (from === bus.peer) return;
        const { sessionId, server, uri } = unpackFrame<GivenUp>(payload).header;
        deps.gateway.givenUp(sessionId, server, uri);
      }),
    ];
  }

  /** To all other nodes. A hint; lost in an outage. */
  givenUp(sessionId: string, server: string, uri: string): void {
    if (uri.length > MAX_URI) return;
    const givenUp: GivenUp = { sessionId, server, uri };
    this.subscriptions.givenUp(givenUp);
    this.deps.bus.publish(GIVEN_UP, packFrame(givenUp));
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
    return this.nodes.get(peer) !== null;
  }

  returned(peer: string, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    return this.#calls.run(peer, exchange, endpoint);
  }

  /** A body that an HTTP+SSE client posts here; the URL names the node with its stream. Never rejects. */
  async posted(peer: string, { body, ...header }: StreamPost): Promise<PostAnswer> {
    const call = this.deps.bus.call(POSTED, packFrame(header, [body]), { to: peer, deadlineMs: POST_MS });
    const outcome = await call.outcome;
    if (outcome.kind === 'result') return unpackFrame<PostAnswer>(outcome.payload).header;
    const { error } = outcome;
    const status = error.outcome === 'UNKNOWN' ? 502 : 503;
    return { status, code: error.rpcCode, text: `the node with the stream does not answer: ${error.message}`, id: '' };
  }

  override close(): void {
    super.close();
    this.copies?.flush();
    this.subscriptions.close();
    this.#calls.close();
    for (const registration of this.#registrations) registration.close();
  }
}
