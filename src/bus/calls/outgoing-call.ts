import { GatewayError } from '../../model/gateway-error.ts';
import type { BusCall, BusCallOptions, BusOutcome, Payload } from '../bus.ts';
import { CallEndpoint, type CallTable } from './call-endpoint.ts';
import { MAX_DEADLINE_MS, MAX_PAYLOAD_BYTES, type TickInfo } from './call-transport.ts';
import { failureJson, readFailure } from './failure-json.ts';
import {
  type AckFrame,
  type CallId,
  type DataFrame,
  FRAME,
  type Framed,
  frameText,
  PART,
  type Part,
  Pieces,
  plainFrame,
  requestFrame,
} from './frames.ts';

/** Time for the peer to accept a call; without acceptance or answer the call fails. */
const ACCEPT_TIMEOUT_MS = 1_500;
/** Grace period after a stall of this process: timers run before the input that arrived meanwhile is read. */
const STALL_GRACE_MS = 500;

export class OutgoingCall extends CallEndpoint implements BusCall {
  readonly outcome: Promise<BusOutcome>;
  accepted = false;
  /** Number of the message that carries the request; 0 if it was not sent. */
  bundle = 0;
  /** The cancellation, if there was no connection to send it. */
  unsent: Buffer | null = null;
  readonly #subject: string;
  readonly #options: BusCallOptions;
  readonly #deadlineMs: number;
  /** 0: only the deadline applies. */
  readonly #idleTimeoutMs: number;
  #questions = 0;
  #paused = false;
  readonly #settle: (outcome: BusOutcome) => void;
  #rest: Pieces | null = null;
  #restSent = false;
  /** The serving side has sent data, so the call may be running. */
  #receivedData = false;

  constructor(owner: CallTable, id: CallId, subject: string, options: BusCallOptions) {
    const { idleTimeoutMs = 0 } = options;
    const deadlineMs = Math.max(0, Math.min(Math.ceil(options.deadlineMs), MAX_DEADLINE_MS));
    const hasIdleTimeout = idleTimeoutMs > 0 && idleTimeoutMs < deadlineMs;
    super(owner, id, options.to);
    this.#subject = subject;
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<BusOutcome>();
    this.outcome = promise;
    this.#settle = resolve;
    this.#deadlineMs = deadlineMs;
    this.#idleTimeoutMs = hasIdleTimeout ? idleTimeoutMs : 0;
    this.dueIn(ACCEPT_TIMEOUT_MS);
    this.endIn(hasIdleTimeout ? idleTimeoutMs : deadlineMs);
  }

  start(payload: Payload): void {
    const pieces = new Pieces(payload);
    const { chunkBytes, connected } = this.transport;
    const total = pieces.left;
    if (!connected || total > MAX_PAYLOAD_BYTES) {
      if (!connected) this.notSent('the bus is not connected');
      else this.notSent(`a request of ${total} bytes is too large for the bus`, false);
      return;
    }
    const head = { deadlineMs: this.#deadlineMs, total };
    const frame = requestFrame(this.#subject, this, head, pieces, Math.min(total, chunkBytes));
    this.bundle = this.transport.sender.transmit(this.peer, 'new', this, frame);
    this.#rest = pieces.left > 0 ? copied(pieces) : null;
  }

  cancel(reason: string): void {
    if (this.ended) return;
    this.#sendCancel(reason);
    this.#end(new GatewayError('CANCELLED', reason, { outcome: this.#failureOutcome }));
  }

  pause(): void {
    this.#paused = true;
    this.channel.pause();
    this.#resetIdleTimer();
  }

  resume(): void {
    this.#paused = false;
    this.openedChannel?.resume();
    this.#resetIdleTimer();
  }

  override tick(info: TickInfo): number {
    if (info.stalled) {
      this.dueAt = Math.max(this.dueAt, info.now + STALL_GRACE_MS);
      if (this.#idleTimeoutMs > 0) this.endsAt = Math.max(this.endsAt, info.now + STALL_GRACE_MS);
    }
    return super.tick(info);
  }

  controlFrame(kind: number, frame: Framed): void {
    if (kind === FRAME.accept) this.#accepted();
    else if (kind === FRAME.unserved) this.notSent(frameText(frame));
    // The serving side does not know the call, or gave it up.
    else if (kind === FRAME.gone) this.lost(frameText(frame) || 'the node that served the call no longer knows it');
  }

  #accepted(): void {
    const channel = this.channel;
    if (this.accepted) {
      channel.acknowledge(true);
      return;
    }
    this.accepted = true;
    this.dueAt = Number.POSITIVE_INFINITY;
    if (this.#rest !== null) channel.send(PART.request, 0, this.#rest);
    this.#rest = null;
    this.#restSent = true;
    channel.open();
  }

  data(frame: DataFrame): void {
    // A short answer arrives without an acceptance.
    const { part, seq, more } = frame;
    const short = !this.accepted && this.openedChannel === null && seq === 1 && !more;
    if (short && (part === PART.result || part === PART.failure)) this.received(part, 0, frame.bytes);
    else {
      this.channel.data(frame);
      this.#resetIdleTimer();
    }
  }

  ack(frame: AckFrame): void {
    if (!this.accepted) return;
    this.channel.ack(frame);
    // An acknowledgement restarts the idle timer only while data is still queued.
    if (!this.channel.sent) this.#resetIdleTimer();
  }

  #resetIdleTimer(): void {
    if (this.#idleTimeoutMs === 0 || this.ended) return;
    if (this.#questions > 0 || this.#paused) this.endsAt = Number.POSITIVE_INFINITY;
    else this.endIn(this.#idleTimeoutMs);
  }

  /** Ends the call if the request cannot have reached a peer. */
  notSent(reason: string, retryable = true): void {
    if (!this.accepted) this.#end(new GatewayError('NOT_SENT', reason, { retryable }));
  }

  /** An accepted call may continue after a reconnect. */
  disconnected(): void {
    if (!this.accepted) this.lost('the bus lost its connection before the call was taken');
  }

  resync(): void {
    if (!this.accepted) return;
    this.channel.acknowledge(true);
    this.channel.retransmit();
  }

  lost(reason: string): void {
    if (this.ended) return;
    this.#sendCancel(reason);
    this.#end(new GatewayError(this.#failureOutcome, reason));
  }

  get #failureOutcome(): 'NOT_SENT' | 'UNKNOWN' {
    const complete = this.#receivedData || (this.#rest === null && (!this.#restSent || this.channel.sent));
    return complete ? 'UNKNOWN' : 'NOT_SENT';
  }

  transmit(frame: Buffer): void {
    if (this.accepted) this.transport.sender.transmit(this.peer, 'serving', this, frame);
  }

  #sendCancel(reason: string): void {
    const frame = plainFrame(FRAME.cancel, reason);
    if (this.transport.sender.transmit(this.peer, 'serving', this, frame) === 0) this.unsent = frame;
  }

  received(part: Part, ref: number, payload: Buffer): void {
    // After the end, `resume` still passes on what waited.
    if (this.ended) return;
    this.#receivedData = true;
    if (part === PART.emit) this.#options.onEmit?.(payload);
    else if (part === PART.ask) this.#asked(ref, payload);
    else if (part === PART.result || part === PART.failure) {
      if (this.accepted) this.channel.acknowledge(false);
      if (part === PART.result) this.#finish({ kind: 'result', payload });
      else this.#finish({ kind: 'failure', error: readFailure(payload), fromServer: true });
    }
  }

  #asked(ref: number, payload: Buffer): void {
    const options = this.#options;
    this.#questions++;
    const answered = (answer: Payload): void => {
      this.#questions--;
      this.#resetIdleTimer();
      if (!this.ended) this.channel.send(PART.answer, ref, answer);
    };
    const failed = (error: unknown): void => {
      this.#questions--;
      this.#resetIdleTimer();
      if (this.ended) return;
      const known = error instanceof GatewayError ? error : new GatewayError('INTERNAL', String(error));
      this.channel.send(PART.askFailure, ref, failureJson(known));
    };
    if (options.onAsk === undefined) failed(new GatewayError('METHOD_NOT_FOUND', 'this caller cannot be asked'));
    else options.onAsk(payload).then(answered, failed);
  }

  drained(): void {}

  protected expired(): void {
    if (this.ended) return;
    this.#sendCancel('the deadline ran out');
    this.#end(new GatewayError('TIMEOUT', 'the deadline of the call ran out', { outcome: this.#failureOutcome }));
  }

  protected due(): void {
    if (!this.accepted) this.lost(`no node accepted the call within ${ACCEPT_TIMEOUT_MS} ms`);
  }

  broken(reason: string, slow: boolean): void {
    if (slow) this.transport.slow(this.#subject);
    this.lost(reason);
  }

  #end(error: GatewayError): void {
    this.#finish({ kind: 'failure', error });
  }

  #finish(outcome: BusOutcome): void {
    if (this.ended) return;
    this.end();
    this.#settle(outcome);
  }
}

/** Copies the rest, because the caller may reuse its buffers once `call` returns. */
function copied(pieces: Pieces): Pieces {
  const rest = Buffer.allocUnsafe(pieces.left);
  pieces.copy(rest, 0, rest.length);
  return new Pieces(rest);
}
