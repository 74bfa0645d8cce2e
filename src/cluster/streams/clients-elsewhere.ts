import type { BusServing } from '../../bus/bus.ts';
import { failureJson, readFailure } from '../../bus/calls/failure-json.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { PostAnswer, StreamPost } from '../../model/stream-copies.ts';
import { type ExchangeHeader, exchangeHeader, runElsewhere } from '../calls/remote-calls.ts';
import { ServedExchange } from '../calls/served-exchange.ts';
import type { ClusterParts, SubscribedResource } from '../cluster-deps.ts';
import { clientOf, headOf, type MessageHead, messageOf, packFrame, unpackFrame } from '../frames/frame.ts';
import type { LazyBucket } from '../lazy-bucket.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { ResumedStreams } from './resumed-streams.ts';
import { ownerOf, SharedSubscriptions } from './shared-subscriptions.ts';
import { CopiesOfStreams } from './stream-copies.ts';

interface ReturnedHeader extends ExchangeHeader {
  readonly endpoint: Endpoint;
}

type ReturnedReply = { readonly kind: 'answer'; readonly message: MessageHead } | { readonly kind: 'failure' };

interface GivenUp {
  readonly sessionId: string;
  readonly server: string;
  readonly uri: string;
}

const RETURNED = 'trunkline.returned';
const MAX_CALLS = 10_000;
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

  constructor(deps: ClusterParts, nodes: Nodes, leases: LazyBucket) {
    super(deps, nodes, leases);
    const { bus, clock, log } = deps;
    this.self = bus.peer;
    this.copies = log === undefined ? undefined : new CopiesOfStreams(log, clock);
    this.subscriptions = new SharedSubscriptions(deps, nodes);
    const returned = async (serving: BusServing): Promise<void> => {
      const { header, pieces } = unpackFrame<ReturnedHeader>(serving.payload);
      const request = messageOf(header.request, pieces[0]!);
      const exchange = new ServedExchange(serving, header.exchange, request, clientOf(header.client), header);
      const outcome = await deps.downstream.returned(exchange, header.endpoint);
      const reply: ReturnedReply =
        outcome.kind === 'failure' ? { kind: 'failure' } : { kind: 'answer', message: headOf(outcome.message) };
      const piece = outcome.kind === 'failure' ? failureJson(outcome.error) : outcome.message.bytes;
      serving.answer(packFrame(reply, [piece]));
    };
    const posted = (serving: BusServing): void => {
      const { header, pieces } = unpackFrame<Omit<StreamPost, 'body'>>(serving.payload);
      const { sessionId, principal, endpoint } = header;
      serving.answer(packFrame(deps.downstream.posted({ sessionId, principal, endpoint, body: pieces[0]! })));
    };
    bus.serve(RETURNED, returned, { concurrency: MAX_CALLS });
    bus.serve(POSTED, posted, { concurrency: MAX_POSTS });
    bus.subscribe(GIVEN_UP, (payload, from) => {
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

  /** A call that waits for input stays at its node, which the `requestState` names. Never rejects. */
  returned(peer: string, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { request } = exchange;
    const header: ReturnedHeader = { ...exchangeHeader(request, exchange), endpoint };
    const payload = packFrame(header, [request.bytes]);
    return runElsewhere(this.deps.bus, RETURNED, peer, payload, exchange, 0, (outcome) => {
      if (outcome.kind === 'failure') return failure(unreached(outcome.error));
      const { header: reply, pieces } = unpackFrame<ReturnedReply>(outcome.payload);
      if (reply.kind === 'failure') return failure(readFailure(pieces[0]!));
      return answer(messageOf(reply.message, pieces[0]!));
    });
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

  close(): Promise<void> {
    this.copies?.flush();
    return this.subscriptions.close();
  }
}

/** The call began long ago: an unreachable node does not prove that it did not run. */
function unreached(error: GatewayError): GatewayError {
  if (error.outcome !== 'NOT_SENT') return error;
  const text = 'the node where the call waits cannot be reached; it may have run';
  return new GatewayError('UNKNOWN', text, { cause: error });
}
