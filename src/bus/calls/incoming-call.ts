import { GatewayError } from '../../model/gateway-error.ts';
import type { BusServing, Payload } from '../bus.ts';
import { CallEndpoint, type CallTable } from './call-endpoint.ts';
import { failureJson, readFailure } from './failure-json.ts';
import {
  type AckFrame,
  type DataFrame,
  dataFrame,
  FRAME,
  type Framed,
  frameText,
  PART,
  type Part,
  Pieces,
  plainFrame,
  type RequestFrame,
} from './frames.ts';

/** An answer within this time needs no acceptance, so the call takes two messages. */
const ACCEPT_MS = 20;
/** Time for the caller to send the next part of a request. */
const REQUEST_MS = 5_000;
/** How long the serving end keeps an answer that the caller does not acknowledge. */
const KEEP_MS = 30_000;

interface PendingAnswer {
  resolve(answer: Buffer): void;
  reject(error: GatewayError): void;
}

export interface ServedSubject {
  readonly concurrency: number;
  /** Open calls that count towards `concurrency`. */
  running: number;
  /** Called when the whole request has arrived. */
  begin(call: IncomingCall): void;
}

/** The serving end of a call, until the caller has the answer. */
export class IncomingCall extends CallEndpoint implements BusServing {
  readonly subject: string;
  payload: Buffer;
  cancelled: string | null = null;
  onCancel: ((reason: string) => void) | null = null;
  onEnd: ((callerLost: boolean) => void) | null = null;
  onDrain: (() => void) | null = null;
  readonly #served: ServedSubject;
  #counts = false;
  #asks: Map<number, PendingAnswer> | null = null;
  readonly #total: number;
  #lastAsk = 0;
  #accepted = false;
  #began = false;
  #answered = false;

  constructor(owner: CallTable, subject: string, from: string, request: RequestFrame, served: ServedSubject) {
    super(owner, request, from);
    this.subject = subject;
    this.payload = request.first;
    this.#served = served;
    this.#total = request.total;
    this.endIn(request.deadlineMs);
    this.dueIn(ACCEPT_MS);
    if (this.#isComplete) return;
    this.#accept();
    this.dueIn(REQUEST_MS);
  }

  get from(): string {
    return this.peer;
  }

  /** Called once the call is in the table, where its frames find it. */
  start(): void {
    this.#served.running++;
    this.#counts = true;
    this.#begin();
  }

  /** Runs the handler once the whole request has arrived. */
  #begin(): void {
    if (this.#began || !this.#isComplete || this.answered) return;
    this.#began = true;
    if (this.#accepted) this.dueAt = Number.POSITIVE_INFINITY;
    this.#served.begin(this);
  }

  /** The handler has answered, or the call is over. */
  get answered(): boolean {
    return this.#answered || this.ended;
  }

  emit(payload: Payload): boolean {
    if (this.#answered || this.cancelled !== null) return true;
    this.#accept();
    return this.channel.send(PART.emit, 0, payload);
  }

  ask(payload: Payload): Promise<Buffer> {
    if (this.#answered || this.cancelled !== null) {
      return Promise.reject(
        new GatewayError('CANCELLED', this.cancelled ?? 'the call has ended', { outcome: 'NOT_SENT' }),
      );
    }
    this.#accept();
    const ref = ++this.#lastAsk;
    return new Promise((resolve, reject) => {
      this.#asks ??= new Map();
      this.#asks.set(ref, { resolve, reject });
      this.channel.send(PART.ask, ref, payload);
    });
  }

  answer(payload: Payload): void {
    this.#last(PART.result, payload);
  }

  fail(error: GatewayError): void {
    this.#last(PART.failure, failureJson(error));
  }

  data(frame: DataFrame): void {
    this.channel.data(frame);
    if (!this.#began && !this.answered) this.dueIn(REQUEST_MS);
  }

  ack(frame: AckFrame): void {
    this.channel.ack(frame);
    if (this.#answered && this.channel.settled) this.#end();
  }

  controlFrame(kind: number, frame: Framed): void {
    if (kind === FRAME.cancel) this.cancel(frameText(frame));
  }

  cancel(reason: string, callerLost = false): void {
    if (this.ended || this.cancelled !== null) return;
    this.cancelled = reason;
    this.#failAsks(reason);
    const wasRunning = this.#began && !this.#answered;
    this.#end(callerLost);
    if (wasRunning) this.onCancel?.(reason);
  }

  /** Gives the call up and sends the reason to the caller. */
  abandon(reason: string, callerLost = false): void {
    if (this.ended) return;
    this.transmit(plainFrame(FRAME.gone, reason));
    this.cancel(reason, callerLost);
  }

  resync(): void {
    if (this.ended) return;
    this.transmit(plainFrame(FRAME.accept));
    if (this.#accepted) {
      this.channel.acknowledge(true);
      this.channel.retransmit();
    } else this.dueAt = Number.POSITIVE_INFINITY;
    this.#accepted = true;
    this.channel.open();
  }

  protected due(): void {
    if (this.#answered) this.#end();
    else if (this.#began) this.#accept();
    else this.abandon('the rest of the request did not arrive');
  }

  #accept(): void {
    if (this.#accepted || this.ended) return;
    this.#accepted = true;
    this.dueAt = Number.POSITIVE_INFINITY;
    this.transmit(plainFrame(FRAME.accept));
    this.channel.open();
  }

  get #isComplete(): boolean {
    return this.payload.length >= this.#total;
  }

  transmit(frame: Buffer): void {
    this.transport.sender.transmit(this.peer, 'caller', this, frame);
  }

  drained(): void {
    this.onDrain?.();
  }

  protected expired(): void {
    this.cancel('the deadline ran out');
  }

  received(part: Part, ref: number, payload: Buffer): void {
    if (part === PART.request) {
      if (this.answered) return;
      this.payload = Buffer.concat([this.payload, payload]);
      if (this.payload.length === this.#total) this.#begin();
      else this.fail(new GatewayError('INVALID_REQUEST', 'the request does not have its announced length'));
    } else if (part === PART.answer || part === PART.askFailure) {
      const asked = this.#asks?.get(ref);
      this.#asks?.delete(ref);
      if (part === PART.answer) asked?.resolve(payload);
      else asked?.reject(readFailure(payload));
    }
  }

  #last(part: Part, payload: Payload): void {
    if (this.#answered || this.ended) return;
    this.#failAsks('the call has ended');
    this.#answered = true;
    const pieces = new Pieces(payload);
    const { chunkBytes, connected } = this.transport;
    if (!this.#accepted && this.openedChannel === null && pieces.left <= chunkBytes && connected) {
      // Without an acceptance, this message is the whole answer and is never sent again.
      this.transmit(dataFrame(1, part, 0, pieces, pieces.left));
      this.#end();
      return;
    }
    this.channel.send(part, 0, pieces);
    this.#accept();
    this.dueIn(KEEP_MS);
  }

  broken(reason: string, slow: boolean): void {
    if (slow) this.transport.slow(this.subject);
    this.abandon(reason);
  }

  #failAsks(reason: string): void {
    if (this.#asks === null) return;
    for (const { reject } of this.#asks.values()) reject(new GatewayError('CANCELLED', reason));
    this.#asks = null;
  }

  #end(callerLost = false): void {
    if (this.ended) return;
    if (this.#counts) this.#served.running--;
    this.end();
    this.onEnd?.(callerLost);
  }
}
