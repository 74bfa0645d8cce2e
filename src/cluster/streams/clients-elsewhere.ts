import type { BusServing, Payload } from '../../bus/bus.ts';
import { failureJson, readFailure } from '../../bus/calls/failure-json.ts';
import type { Bucket, StateRecord } from '../../bus/shared-state.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import { pause } from '../../model/clock.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { SubscribedResource } from '../../model/ports.ts';
import type {
  EventSink,
  OrphanedStream,
  PostAnswer,
  Resumed,
  StreamPost,
  StreamsElsewhere,
} from '../../model/stream-copies.ts';
import { type ExchangeHeader, exchangeHeader, LONGEST_MS, runElsewhere } from '../calls/remote-calls.ts';
import { ServedExchange } from '../calls/served-exchange.ts';
import type { ClusterParts } from '../cluster-deps.ts';
import { CoalescedReads } from '../coalesced-reads.ts';
import { clientOf, headOf, type MessageHead, messageOf, packFrame, unpackFrame } from '../frames/frame.ts';
import { LEASE_MS, leaseKey } from '../nodes/lease-record.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { ownerOf, type SharedSubscription, SharedSubscriptions } from './shared-subscriptions.ts';
import { readOrphanedStream, StreamCopyWriter, takeOverStream } from './stream-copies.ts';
import type { StreamRouter } from './stream-router.ts';

interface ReturnedHeader extends ExchangeHeader {
  readonly endpoint: Endpoint;
}

/** A failure is a reply too, so that a node of an earlier version does not take it for a failure of the bus. */
type ReturnedReply = { readonly kind: 'answer'; readonly message: MessageHead } | { readonly kind: 'failure' };

interface ResumeHeader {
  readonly sessionId: string;
  readonly afterId: string;
}

type GivenUp = Pick<SharedSubscription, 'sessionId' | 'server' | 'uri'>;

const RETURNED = 'trunkline.returned';
const MAX_CALLS = 10_000;
const POSTED = 'trunkline.posted';
const MAX_POSTS = 10_000;
const POST_MS = 10_000;
const RESUME = 'trunkline.resume';
/** The lease of a silent node has expired by then, even if no witness is left to end it. */
const GONE_MS = LEASE_MS + 1_000;
const PAUSE_MS = 100;
const MAX_STREAMS = 10_000;
/** Form of `Bus.peer`. */
const PEER = /^[0-9a-f]{16}$/;
/** Stream names: kind, digest of the session, peer, number. */
const NODE_IN_NAME = /^([a-z])[0-9a-f]+\.([0-9a-f]{16})/;
const GIVEN_UP = 'trunkline.given-up';
/** Other nodes do not know the subscription to a longer URI, so its end is not published. */
const MAX_URI = 32 * 1024;

/**
 * Connects clients to the node that has their calls, streams and subscriptions. A stream stays at the node where it began; if its
 * client reconnects to another node, that node relays the stream.
 */
export class ClientsElsewhere implements StreamsElsewhere {
  readonly self: string;
  /** Undefined without a shared log. */
  readonly copies: StreamCopyWriter | undefined;
  readonly subscriptions: SharedSubscriptions;
  readonly #deps: ClusterParts;
  readonly #nodes: Nodes;
  /** Readings of leases, by peer: all clients of a dead node ask. */
  readonly #reads = new CoalescedReads<StateRecord | null>();
  readonly #leases: Bucket;
  readonly #streams: StreamRouter;

  /** `leases`: bucket with the leases of all nodes. */
  constructor(deps: ClusterParts, nodes: Nodes, leases: Bucket, streams: StreamRouter) {
    this.#deps = deps;
    this.#nodes = nodes;
    this.#leases = leases;
    this.#streams = streams;
    const { bus, clock, log } = deps;
    this.self = bus.peer;
    this.copies = log === undefined ? undefined : new StreamCopyWriter(log, clock);
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
    bus.serve(RESUME, (serving) => this.#serve(serving), { concurrency: MAX_STREAMS });
    bus.serve(RETURNED, returned, { concurrency: MAX_CALLS });
    bus.serve(POSTED, posted, { concurrency: MAX_POSTS });
    bus.subscribe(GIVEN_UP, (payload, from) => {
      if (from === bus.peer) return;
      const { sessionId, server, uri } = unpackFrame<GivenUp>(payload).header;
      deps.gateway.givenUp(sessionId, server, uri);
    });
  }

  /** Deletes the shared subscription and notifies all other nodes; the notification is lost in an outage. */
  givenUp(sessionId: string, server: string, uri: string): void {
    if (uri.length > MAX_URI) return;
    const givenUp: GivenUp = { sessionId, server, uri };
    this.subscriptions.givenUp(givenUp);
    this.#deps.bus.publish(GIVEN_UP, packFrame(givenUp));
  }

  refusal(sessionId: string, { server, uri }: SubscribedResource): GatewayError | null {
    return this.subscriptions.refusal({ sessionId, server, uri });
  }

  subscribed({ sessionId, principal }: ClientProfile, { server, uri, exposed }: SubscribedResource): void {
    if (sessionId !== null) this.subscriptions.made({ sessionId, server, uri, exposed, of: ownerOf(principal.id) });
  }

  subscribedElsewhere(principal: string): number {
    return this.subscriptions.countElsewhere(ownerOf(principal));
  }

  sessionEnded(sessionId: string): void {
    this.subscriptions.ended(sessionId);
    this.#streams.ended(sessionId);
  }

  has(peer: string): boolean {
    return this.#nodes.get(peer) !== null;
  }

  /** Continues a call that waits for input at its node, which the `requestState` names. Never rejects. */
  returned(peer: string, exchange: Exchange, endpoint: Endpoint): Promise<Outcome> {
    const { request } = exchange;
    const header: ReturnedHeader = { ...exchangeHeader(request, exchange), endpoint };
    const payload = packFrame(header, [request.bytes]);
    return runElsewhere(this.#deps.bus, RETURNED, peer, payload, exchange, 0, (outcome) => {
      if (outcome.kind === 'failure') return failure(unreached(outcome.error));
      try {
        const { header: reply, pieces } = unpackFrame<ReturnedReply>(outcome.payload);
        if (reply.kind === 'failure') return failure(readFailure(pieces[0]!));
        return answer(messageOf(reply.message, pieces[0]!));
      } catch (cause) {
        return failure(unreadable(cause));
      }
    });
  }

  /**
   * Passes on a body that an HTTP+SSE client posted here to the node with its stream. Null if there is no such node: without the
   * bus, or while its lease lasts, a node that is not heard may still have the stream. Never rejects.
   */
  async posted(peer: string, { body, ...header }: StreamPost): Promise<PostAnswer | null> {
    const { bus } = this.#deps;
    if (!PEER.test(peer) || (bus.connected && (await this.#isOver(peer, 's')))) return null;
    const call = bus.call(POSTED, packFrame(header, [body]), { to: peer, deadlineMs: POST_MS });
    const outcome = await call.outcome;
    if (outcome.kind === 'failure') return notPosted(outcome.error);
    try {
      return unpackFrame<PostAnswer>(outcome.payload).header;
    } catch (cause) {
      return notPosted(unreadable(cause));
    }
  }

  isElsewhere(eventId: string): boolean {
    const named = NODE_IN_NAME.exec(eventId)?.[2];
    return named !== undefined && named !== this.#deps.bus.peer;
  }

  /** Resumes the stream through the node that the event id names. */
  async resume(sessionId: string, afterId: string, open: () => EventSink): Promise<Resumed> {
    const { clock } = this.#deps;
    const [, kind, named] = NODE_IN_NAME.exec(afterId) ?? [];
    if (kind === undefined || named === undefined) return 'none';
    if (this.#nodes.get(named) !== null && !(await this.#isOver(named, kind))) {
      const asked = await this.#ask(named, { sessionId, afterId }, open);
      if (asked !== 'unreached') return asked;
    }
    for (const end = clock.now() + GONE_MS; ; await pause(clock, PAUSE_MS)) {
      if (await this.#isOver(named, kind)) return 'gone';
      if (clock.now() >= end) return 'none';
    }
  }

  /** Asks all other nodes: a restarted node has another peer id, but still its event log. */
  async resumeAnywhere(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean> {
    for (const { peer } of [...this.#nodes.others()]) {
      if ((await this.#ask(peer, { sessionId, afterId }, open)) === 'served') return true;
    }
    return false;
  }

  async findOrphaned(sessionId: string, principal: string, afterId: string): Promise<OrphanedStream | null> {
    const { log } = this.#deps;
    return log === undefined ? null : readOrphanedStream(log, sessionId, principal, afterId);
  }

  async takeOver(left: OrphanedStream, asEventId: string): Promise<boolean> {
    const { log } = this.#deps;
    return log !== undefined && takeOverStream(log, left, asEventId).catch(() => false);
  }

  close(): Promise<void> {
    this.copies?.flush();
    return this.subscriptions.close();
  }

  /**
   * Whether that node certainly sends nothing more on streams of this kind: it is gone and its lease has expired, or it is
   * draining and the stream is a session's own (`g`). Never rejects.
   */
  async #isOver(peer: string, kind: string): Promise<boolean> {
    const node = this.#nodes.get(peer);
    if (node !== null) return kind === 'g' && node.state === 'draining';
    try {
      return (await this.#reads.get(peer, () => this.#leases.get(leaseKey(peer)))) === null;
    } catch {
      // An unreadable store does not prove that the lease has expired.
      return false;
    }
  }

  /** Resolves as soon as the peer shows whether it has the stream; this node then relays its events. */
  #ask(peer: string, header: ResumeHeader, open: () => EventSink): Promise<'served' | 'none' | 'unreached'> {
    return new Promise((resolve) => {
      let sink: EventSink | null = null;
      const call = this.#deps.bus.call(RESUME, packFrame(header), {
        to: peer,
        deadlineMs: LONGEST_MS,
        onEmit: (payload) => {
          const { header: frame, pieces } = unpackFrame<StreamFrame>(payload);
          if (sink === null) {
            sink = open();
            sink.onClose = () => call.cancel('the client has gone');
            resolve('served');
          }
          if (frame.kind === 'retry') sink.retry(frame.ms);
          if (frame.kind !== 'event' || sink.event(frame.id, pieces, frame.droppable) || sink.closed) return;
          sink.onDrain = () => call.resume();
          call.pause();
        },
      });
      void call.outcome.then(({ kind }) => {
        sink?.end();
        resolve(kind === 'result' ? 'none' : 'unreached');
      });
    });
  }

  async #serve(serving: BusServing): Promise<void> {
    const { sessionId, afterId } = unpackFrame<ResumeHeader>(serving.payload).header;
    let over: Promise<void> | null = null;
    const found = await this.#deps.downstream.resumeFor(sessionId, afterId, () => {
      serving.emit(packFrame({ kind: 'open' } satisfies StreamFrame));
      const sink = new SinkElsewhere(serving, (id, parts, droppable) =>
        packFrame({ kind: 'event', id, droppable } satisfies StreamFrame, parts),
      );
      over = sink.over;
      return sink;
    });
    if (found) await over;
    serving.answer(packFrame({}));
  }
}

/** The call began earlier, so that NOT_SENT for an unreachable node does not prove that the call did not run. */
function unreached(error: GatewayError): GatewayError {
  if (error.outcome !== 'NOT_SENT') return error;
  const text = 'the node where the call waits cannot be reached; it may have run';
  return new GatewayError('UNKNOWN', text, { cause: error });
}

/** The other node may have done what it was asked. */
function unreadable(cause: unknown): GatewayError {
  return new GatewayError('UNKNOWN', 'another node sent a reply that cannot be read', { cause });
}

function notPosted({ outcome, rpcCode: code, message }: GatewayError): PostAnswer {
  const status = outcome === 'UNKNOWN' ? 502 : 503;
  return { status, code, text: `no answer from the node with the stream: ${message}`, id: '' };
}

/** The first frame opens the stream; the pieces of an event frame are the event. */
type StreamFrame =
  | { readonly kind: 'open' }
  | { readonly kind: 'event'; readonly id: string | null; readonly droppable: boolean }
  | { readonly kind: 'retry'; readonly ms: number };

/** A stream of this node whose client is connected to another node. */
export class SinkElsewhere implements EventSink {
  onDrain: (() => void) | null = null;
  onClose: (() => void) | null = null;
  closed = false;
  readonly #serving: BusServing;
  readonly #packed: (id: string | null, parts: readonly Buffer[], droppable: boolean) => Payload;
  readonly #over = Promise.withResolvers<void>();
  #full = false;

  constructor(
    serving: BusServing,
    packed: (id: string | null, parts: readonly Buffer[], droppable: boolean) => Payload,
  ) {
    this.#serving = serving;
    this.#packed = packed;
    serving.onCancel = () => {
      if (this.closed) return;
      this.end();
      this.onClose?.();
    };
    serving.onDrain = () => {
      this.#full = false;
      this.onDrain?.();
    };
    if (serving.cancelled !== null) this.end();
  }

  get over(): Promise<void> {
    return this.#over.promise;
  }

  event(id: string | null, parts: readonly Buffer[], droppable = false): boolean {
    if (this.closed || (this.#full && droppable)) return false;
    return this.#emit(this.#packed(id, parts, droppable));
  }

  /** Only for streams of clients, because it sends a `StreamFrame`. */
  retry(ms: number): boolean {
    return !this.closed && this.#emit(packFrame({ kind: 'retry', ms } satisfies StreamFrame));
  }

  end(): void {
    this.closed = true;
    this.#over.resolve();
  }

  #emit(payload: Payload): boolean {
    const fits = this.#serving.emit(payload);
    if (!fits) this.#full = true;
    return fits;
  }
}
