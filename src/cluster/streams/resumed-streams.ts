import type { BusServing } from '../../bus/bus.ts';
import { pause } from '../../model/clock.ts';
import type { EventSink, LeftStream, Resumed, StreamsElsewhere } from '../../model/stream-copies.ts';
import type { ClusterParts } from '../cluster-deps.ts';
import { packFrame, unpackFrame } from '../frames/frame.ts';
import type { LazyBucket } from '../lazy-bucket.ts';
import { LEASE_MS, leaseKey } from '../nodes/lease-record.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { LeftStreams } from './stream-copies.ts';

interface ResumeHeader {
  readonly sessionId: string;
  readonly afterId: string;
}

const NAME = 'trunkline.resume';
const LONGEST_MS = 7 * 24 * 3_600_000;
/** The lease of a silent node is over by then, also where no witnesses are left to end it. */
const GONE_MS = LEASE_MS + 1_000;
const PAUSE_MS = 100;
const MAX_STREAMS = 10_000;
/** Kind, digest of the session, node, number. */
const NODE_IN_NAME = /^([a-z])[0-9a-f]+\.([0-9a-f]{16})/;

type Deps = Pick<ClusterParts, 'bus' | 'clock' | 'log' | 'downstream'>;

/** A stream stays at the node where it began; a client that returns to another node is connected to it. */
export class ResumedStreams implements StreamsElsewhere {
  protected readonly deps: Deps;
  protected readonly nodes: Nodes;
  readonly #leases: LazyBucket;
  readonly #left: LeftStreams | null;

  /** `leases`: of all nodes. */
  constructor(deps: Deps, nodes: Nodes, leases: LazyBucket) {
    const { bus, log } = deps;
    this.deps = deps;
    this.nodes = nodes;
    this.#leases = leases;
    this.#left = log === undefined ? null : new LeftStreams(log);
    bus.serve(NAME, (serving) => this.#serve(serving), { concurrency: MAX_STREAMS });
  }

  isElsewhere(eventId: string): boolean {
    const named = NODE_IN_NAME.exec(eventId)?.[2];
    return named !== undefined && named !== this.deps.bus.peer;
  }

  /** Through the node that the event id names. */
  async resume(sessionId: string, afterId: string, open: () => EventSink): Promise<Resumed> {
    const { clock } = this.deps;
    const [, kind, named] = NODE_IN_NAME.exec(afterId) ?? [];
    if (kind === undefined || named === undefined) return 'none';
    if (this.nodes.get(named) !== null && !(await this.#isOver(named, kind))) {
      const asked = await this.#ask(named, { sessionId, afterId }, open);
      if (asked !== 'unreached') return asked;
    }
    for (const end = clock.now() + GONE_MS; ; await pause(clock, PAUSE_MS)) {
      if (await this.#isOver(named, kind)) return 'gone';
      if (clock.now() >= end) return 'none';
    }
  }

  /** A restarted node has another name and still its log. */
  async resumeAnywhere(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean> {
    for (const { peer } of [...this.nodes.others()]) {
      if ((await this.#ask(peer, { sessionId, afterId }, open)) === 'served') return true;
    }
    return false;
  }

  async left(sessionId: string, principal: string, afterId: string): Promise<LeftStream | null> {
    return (await this.#left?.after(sessionId, principal, afterId)) ?? null;
  }

  async takeOver(left: LeftStream, asEventId: string): Promise<boolean> {
    return (await this.#left?.takeOver(left, asEventId).catch(() => false)) ?? false;
  }

  /**
   * That node certainly sends nothing more on streams of this kind: it is silent and its lease is over, or it is draining and the
   * stream a session's own. Never rejects.
   */
  async #isOver(peer: string, kind: string): Promise<boolean> {
    const node = this.nodes.get(peer);
    if (node !== null) return kind === 'g' && node.state === 'draining';
    try {
      return (await this.#leases.get(leaseKey(peer))) === null;
    } catch {
      // An unreadable store does not show that it ended.
      return false;
    }
  }

  /** Resolves as soon as it is known whether the node has the stream. */
  #ask(peer: string, header: ResumeHeader, open: () => EventSink): Promise<'served' | 'none' | 'unreached'> {
    return new Promise((resolve) => {
      let sink: EventSink | null = null;
      const call = this.deps.bus.call(NAME, packFrame(header), {
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
    let sink: SinkElsewhere | null = null;
    const found = await this.deps.downstream.resumeFor(sessionId, afterId, () => {
      sink = new SinkElsewhere(serving);
      return sink;
    });
    const opened = sink as SinkElsewhere | null;
    if (found && opened !== null) await opened.over;
    else serving.answer(packFrame({}));
  }
}

/** The first one opens the stream; the event is the piece. */
type StreamFrame =
  | { readonly kind: 'open' }
  | { readonly kind: 'event'; readonly id: string | null; readonly droppable: boolean }
  | { readonly kind: 'retry'; readonly ms: number };

/** A stream of this node whose client is at another one. */
class SinkElsewhere implements EventSink {
  onDrain: (() => void) | null = null;
  onClose: (() => void) | null = null;
  readonly over: Promise<void>;
  readonly #serving: BusServing;
  readonly #ended: () => void;
  #full = false;
  #closed = false;

  constructor(serving: BusServing) {
    this.#serving = serving;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.over = promise;
    this.#ended = resolve;
    serving.onCancel = () => this.#gone();
    serving.onDrain = () => {
      this.#full = false;
      this.onDrain?.();
    };
    this.#tell({ kind: 'open' });
    if (serving.cancelled !== null) this.#gone();
  }

  get closed(): boolean {
    return this.#closed;
  }

  event(id: string | null, parts: readonly Buffer[], droppable = false): boolean {
    if (this.#closed || (this.#full && droppable)) return false;
    return this.#tell({ kind: 'event', id, droppable }, parts);
  }

  retry(ms: number): boolean {
    return !this.#closed && this.#tell({ kind: 'retry', ms });
  }

  end(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#serving.answer(packFrame({}));
    this.#ended();
  }

  #tell(frame: StreamFrame, parts: readonly Buffer[] = []): boolean {
    const fits = this.#serving.emit(packFrame(frame, parts));
    if (!fits) this.#full = true;
    return fits;
  }

  #gone(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#ended();
    this.onClose?.();
  }
}
