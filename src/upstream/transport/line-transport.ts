import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { startFailure } from '../process/command.ts';
import type { ProcessLog } from '../process/log-limit.ts';
import { MessageReader } from '../process/message-reader.ts';
import { StderrTail } from '../process/stderr-tail.ts';
import { type QueueOutput, WriteQueue } from '../process/write-queue.ts';
import { answeredRequest, InFlight } from './in-flight.ts';
import type { CloseReason, NegotiatedFacts, Outgoing, Transport, TransportReceiver } from './transport.ts';

interface LineChannelDeps {
  /** The server's name, for messages. */
  readonly server: string;
  readonly maxMessageBytes: number;
  readonly logger: ProcessLog;
  /** Masks every secret known to this process; standard error and foreign lines go through it. */
  readonly redact: (text: string) => string;
  readonly clock: Clock;
  /** More junk than can be put up with; `what` completes "the server …". */
  readonly flooded: (what: string) => void;
}

const TAIL_CHARACTERS = 4096;
const LF = 0x0a;

/**
 * Newline-framed messages over the standard streams of a process, wherever it runs: which requests wait for an answer,
 * what becomes of them, what is junk. Where the streams come from and when they end is the transport's matter.
 *
 * A request no byte of which was taken by the stream is NOT_SENT, every other one UNKNOWN. Junk and overlong lines cost
 * a line, not the connection.
 */
class LineChannel {
  readonly #deps: LineChannelDeps;
  readonly #stderr: StderrTail;
  readonly #reader: MessageReader;
  /** Requests without an answer so far, waiting ones included. */
  readonly #inFlight = new InFlight();
  #receiver: TransportReceiver | null = null;
  #queue: WriteQueue | null = null;

  constructor(deps: LineChannelDeps) {
    this.#deps = deps;
    const { logger, redact, clock, maxMessageBytes } = deps;
    this.#stderr = new StderrTail({ logger, redact, clock });
    this.#reader = new MessageReader(
      {
        message: (bytes) => this.#received(bytes),
        answered: answeredRequest,
        tooLarge: (request) => this.#tooLarge(request),
        flooded: () => deps.flooded('floods its standard output with what is no message'),
      },
      { logger, redact, clock, maxMessageBytes },
    );
  }

  /** Gets answers and losses from now on. */
  open(receiver: TransportReceiver): void {
    this.#receiver = receiver;
  }

  /** What is sent from now on goes here, `preamble` before all. */
  begin(input: QueueOutput, preamble: Buffer | null = null): void {
    this.#queue = new WriteQueue(input, (request) => {
      if (this.#inFlight.has(request)) this.#lose(request, this.error('NOT_SENT', 'has closed its input'));
    });
    if (preamble !== null) this.#queue.push([preamble], 0);
  }

  /** As `LineSplitter.push`. */
  output(chunk: Buffer, from?: number, full?: () => boolean): number {
    return this.#reader.push(chunk, from, full);
  }

  errors(chunk: Buffer): void {
    this.#stderr.push(chunk);
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request } = outgoing;
    if (this.#queue === null) {
      this.refuse(outgoing);
    } else if (parts.some((part) => part.includes(LF))) {
      this.#drop(outgoing, this.error('INTERNAL', 'cannot be sent a message with a line break', 'NOT_SENT'));
    } else {
      this.#inFlight.add(request);
      if (this.#queue.push(parts, request)) return;
      this.#drop(outgoing, this.error('OVERLOADED', 'does not take its messages; too many are waiting'));
    }
  }

  /** There is nothing to send it to. */
  refuse({ request }: Outgoing): void {
    if (request > 0) this.#lose(request, this.error('NOT_SENT', 'is not running'));
  }

  abandon(request: number): void {
    if (this.#inFlight.delete(request)) this.#queue?.withdraw(request);
  }

  /** Nothing is read any more. */
  stop(): void {
    this.#reader.stop();
  }

  /** Every request without an answer is lost; `what` completes "the server …". */
  loseAll(what: string): void {
    for (const request of this.#queue?.end() ?? []) {
      if (this.#inFlight.has(request)) this.#lose(request, this.error('NOT_SENT', `${what} before it took the call`));
    }
    for (const request of this.#inFlight.takeAll()) {
      this.#lose(request, this.error('UNKNOWN', `${what} before it answered; the call may have run`));
    }
  }

  /** Lines on standard output that were no messages. */
  get skippedLines(): number {
    return this.#reader.skippedLines;
  }

  stderrTail(maxCharacters = TAIL_CHARACTERS): string {
    return this.#stderr.text(maxCharacters);
  }

  error(code: GatewayError['code'], what: string, outcome?: GatewayError['outcome']): GatewayError {
    const { server } = this.#deps;
    const data = outcome === undefined ? { server } : { server, outcome };
    return new GatewayError(code, `The server ${server} ${what}.`, data);
  }

  #received(bytes: Buffer): void {
    this.#inFlight.settle(bytes);
    this.#receiver?.received(bytes, 0);
  }

  #tooLarge(request: number): void {
    if (!this.#inFlight.has(request)) return;
    const limit = this.#deps.maxMessageBytes;
    this.#lose(request, this.error('TOO_LARGE', `answered with more than the limit of ${limit} bytes`));
  }

  #drop({ request, method }: Outgoing, error: GatewayError): void {
    const { server, logger } = this.#deps;
    if (request > 0) this.#lose(request, error);
    else logger.warn('message_dropped', { server, method, reason: error.message });
  }

  #lose(request: number, error: GatewayError): void {
    this.#inFlight.delete(request);
    this.#receiver?.lost(request, error);
  }
}

/**
 * What is the same for every server that speaks newline-framed messages over the standard streams of something that is
 * started for it: used once, nothing is sent before it has started or after it has ended, and its end is waited for.
 */
export abstract class LineTransport implements Transport {
  abstract readonly kind: Transport['kind'];
  readonly streamPerRequest = false;
  protected readonly channel: LineChannel;
  /** `dying`: exited or unusable, its last output still being read. */
  protected state: 'new' | 'opening' | 'open' | 'dying' | 'dead' | 'closed' = 'new';
  protected receiver: TransportReceiver | null = null;
  readonly #server: string;
  #opening: Promise<void> | null = null;

  constructor(deps: Omit<LineChannelDeps, 'flooded'>) {
    this.#server = deps.server;
    this.channel = new LineChannel({ ...deps, flooded: (what) => this.fail(what) });
  }

  get pid(): number | null {
    return null;
  }

  open(receiver: TransportReceiver): Promise<void> {
    if (this.state !== 'new') return Promise.reject(startFailure(this.#server, 'this transport was used before'));
    this.state = 'opening';
    this.receiver = receiver;
    this.channel.open(receiver);
    this.#opening = this.#open();
    return this.#opening;
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    if (this.state === 'open') this.channel.send(parts, outgoing);
    else if (this.state !== 'closed') this.channel.refuse(outgoing);
  }

  abandon(request: number): void {
    this.channel.abandon(request);
  }

  negotiated(_facts: NegotiatedFacts): void {}

  stderrTail(maxCharacters?: number): string {
    return this.channel.stderrTail(maxCharacters);
  }

  async close(how: CloseReason): Promise<void> {
    if (this.state !== 'closed') {
      this.state = 'closed';
      this.closing();
      this.channel.stop();
      this.channel.loseAll('was stopped');
    }
    // A start under way ends what it started, or it is ended here afterwards.
    await this.#opening?.catch(() => {});
    await this.finish(how);
  }

  /** Starts it and joins its streams to the channel. Rejects with GatewayError, nothing left behind. */
  protected abstract start(): Promise<void>;

  /** Ends it; resolves when nothing is left. May be called again, with a more urgent reason. */
  protected abstract finish(how: CloseReason): Promise<void>;

  /** It may be alive, but the conversation is over; `what` completes "the server …". */
  protected abstract fail(what: string): void;

  /** It is about to be closed for the first time. */
  protected closing(): void {}

  async #open(): Promise<void> {
    try {
      await this.start();
    } catch (error) {
      if (this.state === 'opening') this.state = 'dead';
      throw error;
    }
    if (this.state !== 'opening') throw startFailure(this.#server, 'it was stopped before it had started');
    this.state = 'open';
  }
}
