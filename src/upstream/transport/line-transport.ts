import { GatewayError, notOwned } from '../../model/gateway-error.ts';
import { printable } from '../../model/printable.ts';
import type { TransportKind } from '../../model/server.ts';
import { startFailure } from '../process/command.ts';
import { type LineSink, LineSplitter } from '../process/line-splitter.ts';
import { LogLimit, type OutputOptions } from '../process/log-limit.ts';
import { StderrTail } from '../process/stderr-tail.ts';
import { type HeldProcess, type QueueOutput, WriteQueue } from '../process/write-queue.ts';
import { answeredRequest, InFlight } from './in-flight.ts';
import type {
  ClosedReason,
  CloseReason,
  NegotiatedFacts,
  Outgoing,
  Transport,
  TransportReceiver,
} from './transport.ts';

interface MessageReaderSink {
  /** A line that may be a message: it begins and ends like a JSON object or array. */
  message(bytes: Buffer): void;
  /** The answer to this request exceeds the limit. Called once per line, as soon as that is known. */
  tooLarge(request: number): void;
  /** Junk exceeded the limit; the sink gets nothing after this. */
  flooded(): void;
}

/** Dependencies of a reader of a process's output. */
interface MessageReaderOptions extends OutputOptions {
  readonly maxMessageBytes: number;
  readonly maxJunkBytesPerMinute?: number;
}

const MAX_JUNK_BYTES_PER_MINUTE = 64 * 1024 * 1024;
/** Bytes that an overlong line which looks like an answer may have before it counts as junk. */
const PATIENCE_BYTES = 64 * 1024 * 1024;
/** Minimum bytes that a junk line counts as: lines cost time, not only bytes. */
const LINE_WEIGHT = 64;
const SHOWN_BYTES = 200;
const NOTHING = Buffer.alloc(0);
const BLANK = -1;

/**
 * Extracts the messages from a server's standard output and tolerates the rest: log lines, garbage, overlong lines. The rest is
 * counted and logged at most once a second; too much of it is reported to the sink.
 */
export class MessageReader implements LineSink {
  readonly #sink: MessageReaderSink;
  readonly #options: MessageReaderOptions;
  readonly #lines: LineSplitter;
  readonly #limit: LogLimit;
  /** Lines that were not messages, overlong ones included. */
  #skippedLines = 0;
  /** Bytes of junk, as a leaky bucket: its size is the junk tolerated per minute, and it drains evenly within a minute. */
  #junk = 0;
  #junkAt: number;
  /** The current overlong line: the request it answers, 0 if unknown; its bytes not yet counted as junk. */
  #answers = 0;
  #pending = 0;
  #plausible = false;

  constructor(sink: MessageReaderSink, options: MessageReaderOptions) {
    this.#sink = sink;
    this.#options = options;
    this.#junkAt = options.clock.now();
    this.#limit = new LogLimit(options.clock, 1);
    this.#lines = new LineSplitter(options.maxMessageBytes, this);
  }

  /** As `LineSplitter.push`. */
  push(chunk: Buffer, from?: number, full?: () => boolean): number {
    return this.#lines.push(chunk, from, full);
  }

  /** The sink gets nothing from now on. */
  stop(): void {
    this.#lines.stop();
  }

  line(bytes: Buffer): void {
    if (looksLikeJson(bytes)) {
      this.#sink.message(bytes);
      return;
    }
    if (firstByte(bytes) !== BLANK) {
      this.#report('not_a_message', bytes, 'Standard output is for messages only; logs belong to standard error.');
    }
    this.#countJunk(Math.max(bytes.length, LINE_WEIGHT));
  }

  blank(): void {
    this.#countJunk(LINE_WEIGHT);
  }

  overflow(head: Buffer): void {
    const { maxMessageBytes } = this.#options;
    this.#report('message_too_large', head, `A line is longer than the limit of ${maxMessageBytes} bytes.`);
    this.#plausible = firstByte(head) === 0x7b;
    this.#pending = 0;
    this.#answers = answeredRequest(head, NOTHING);
    if (this.#answers > 0) this.#sink.tooLarge(this.#answers);
  }

  skipped(count: number): void {
    this.#pending += count;
    const patience = this.#plausible ? PATIENCE_BYTES : 0;
    if (this.#pending <= patience) return;
    this.#countJunk(this.#pending - patience);
    this.#pending = patience;
  }

  overflowEnd(head: Buffer, tail: Buffer): void {
    if (this.#answers > 0) return;
    const request = answeredRequest(head, tail);
    if (request > 0) this.#sink.tooLarge(request);
    else this.#countJunk(this.#pending);
  }

  #countJunk(bytes: number): void {
    const { clock, maxJunkBytesPerMinute = MAX_JUNK_BYTES_PER_MINUTE } = this.#options;
    const now = clock.now();
    this.#junk = Math.max(0, this.#junk - ((now - this.#junkAt) / 60_000) * maxJunkBytesPerMinute) + bytes;
    this.#junkAt = now;
    if (this.#junk <= maxJunkBytesPerMinute) return;
    this.#lines.stop();
    this.#sink.flooded();
  }

  #report(event: string, bytes: Buffer, hint: string): void {
    this.#skippedLines++;
    if (!this.#limit.take()) return;
    const { logger } = this.#options;
    const begins = printable(logger.redact(bytes.toString('utf8', 0, 4 * SHOWN_BYTES))).slice(0, SHOWN_BYTES);
    logger.warn(event, { begins, hint, skippedLines: this.#skippedLines });
  }
}

/** The first byte that is not white space; BLANK if there is none. */
function firstByte(bytes: Buffer): number {
  let at = 0;
  while (isSpace(bytes[at])) at++;
  return bytes[at] ?? BLANK;
}

function looksLikeJson(bytes: Buffer): boolean {
  let end = bytes.length - 1;
  while (isSpace(bytes[end])) end--;
  const first = firstByte(bytes);
  return (first === 0x7b && bytes[end] === 0x7d) || (first === 0x5b && bytes[end] === 0x5d);
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d;
}

export interface LineTransportOptions extends OutputOptions {
  /** The server's name, for error messages. */
  readonly server: string;
  readonly maxMessageBytes: number;
  /** Present for a process of a node in a cluster: asked before the start and before each write. */
  readonly owned?: HeldProcess;
}

const TAIL_CHARACTERS = 4096;
const LF = 0x0a;

/**
 * Newline-framed messages over the standard streams of a process that is started for them, wherever it runs. A transport is
 * used once: it sends nothing before the start or after the end, and `close` waits for the end.
 *
 * A request of which the stream took no byte is NOT_SENT, every other one UNKNOWN. Junk and overlong lines cost a line, not the
 * connection.
 */
export abstract class LineTransport implements Transport, MessageReaderSink {
  abstract readonly kind: TransportKind;
  readonly streamPerRequest = false;
  /** `dying`: exited; its last output is still being read. */
  protected state: 'new' | 'opening' | 'open' | 'dying' | 'dead' | 'closed' = 'new';
  protected receiver: TransportReceiver | null = null;
  readonly #options: LineTransportOptions;
  readonly #stderr: StderrTail;
  readonly #reader: MessageReader;
  /** Unanswered requests, including those in the write queue. */
  readonly #inFlight = new InFlight();
  #queue: WriteQueue | null = null;
  #opening: Promise<void> | null = null;

  constructor(options: LineTransportOptions) {
    this.#options = options;
    this.#stderr = new StderrTail(options);
    this.#reader = new MessageReader(this, options);
  }

  get pid(): number | null {
    return null;
  }

  open(receiver: TransportReceiver): Promise<void> {
    const { server } = this.#options;
    if (this.state !== 'new') return Promise.reject(startFailure(server, 'this transport was used before'));
    this.state = 'opening';
    this.receiver = receiver;
    this.#opening = this.#open();
    return this.#opening;
  }

  async #open(): Promise<void> {
    try {
      await this.start();
    } catch (error) {
      if (this.state === 'opening') this.state = 'dead';
      throw error;
    }
    if (this.state !== 'opening') throw startFailure(this.#options.server, 'it was stopped before it had started');
    this.state = 'open';
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    const { request } = outgoing;
    if (this.state !== 'open' || this.#queue === null) {
      if (request > 0 && this.state !== 'closed') this.#lose(request, this.error('NOT_SENT', 'is not running'));
    } else if (parts.some((part) => part.includes(LF))) {
      this.#drop(outgoing, this.error('INTERNAL', 'cannot be sent a message with a line break', 'NOT_SENT'));
    } else {
      this.#inFlight.add(request);
      if (this.#queue.push(parts, request)) return;
      this.#drop(outgoing, this.error('OVERLOADED', 'does not read its input; too many messages wait'));
    }
  }

  abandon(request: number): void {
    if (this.#inFlight.delete(request)) this.#queue?.withdraw(request);
  }

  negotiated(_facts: NegotiatedFacts): void {}

  stderrTail(maxCharacters = TAIL_CHARACTERS): string {
    return this.#stderr.text(maxCharacters);
  }

  async close(how: CloseReason): Promise<void> {
    if (this.state !== 'closed') {
      this.state = 'closed';
      this.#reader.stop();
      this.#loseAll('was stopped');
    }
    // A start in progress ends its own process, or `finish` ends it afterwards.
    await this.#opening?.catch(() => {});
    await this.finish(how);
  }

  /** Starts the process and attaches its streams. Rejects with GatewayError and leaves nothing behind. */
  protected abstract start(): Promise<void>;

  /** Ends the process; resolves when nothing is left of it. May be called again, with a more urgent reason. */
  protected abstract finish(how: CloseReason): Promise<void>;

  /** Messages are written to `input` from now on, `preamble` first. */
  protected begin(input: QueueOutput, preamble: Buffer | null = null): void {
    const { server, owned = null } = this.#options;
    this.#queue = new WriteQueue(input, owned, (request, why) => {
      if (!this.#inFlight.has(request)) return;
      this.#lose(request, why === 'closed' ? this.error('NOT_SENT', 'has closed its input') : notOwned(server));
    });
    if (preamble !== null) this.#queue.begin(preamble);
  }

  /** As `LineSplitter.push`. */
  output(chunk: Buffer, from?: number, full?: () => boolean): number {
    return this.#reader.push(chunk, from, full);
  }

  errors(chunk: Buffer): void {
    this.#stderr.push(chunk);
  }

  /** Ends the connection to a process that may still run; `what` completes "The server …". */
  fail(what: string): void {
    if (!this.disconnect('was given up')) return;
    this.ended({ kind: 'protocol', error: this.error('UPSTREAM_PROTOCOL', what) });
    void this.finish('interrupt');
  }

  /** Stops reading and reports in-flight requests as lost. False if that was done before. */
  protected disconnect(what: string): boolean {
    if (this.state !== 'open' && this.state !== 'dying') return false;
    this.state = 'dead';
    this.#reader.stop();
    this.#loseAll(what);
    return true;
  }

  protected ended(reason: ClosedReason): void {
    if (this.state === 'dead') this.receiver?.closed(reason);
  }

  message(bytes: Buffer): void {
    this.#inFlight.settle(bytes);
    this.receiver?.received(bytes, 0);
  }

  tooLarge(request: number): void {
    if (!this.#inFlight.has(request)) return;
    const limit = this.#options.maxMessageBytes;
    this.#lose(request, this.error('TOO_LARGE', `answered with more than the limit of ${limit} bytes`));
  }

  flooded(): void {
    this.fail('floods its standard output with what is no message');
  }

  #loseAll(what: string): void {
    for (const request of this.#queue?.end() ?? []) {
      if (this.#inFlight.has(request)) this.#lose(request, this.error('NOT_SENT', `${what} before it took the call`));
    }
    for (const request of this.#inFlight.takeAll()) {
      this.#lose(request, this.error('UNKNOWN', `${what} before it answered; the call may have run`));
    }
  }

  #drop({ request, method }: Outgoing, error: GatewayError): void {
    const { server, logger } = this.#options;
    if (request > 0) this.#lose(request, error);
    else logger.warn('message_dropped', { server, method, reason: error.message });
  }

  #lose(request: number, error: GatewayError): void {
    this.#inFlight.delete(request);
    this.receiver?.lost(request, error);
  }

  protected error(code: GatewayError['code'], what: string, outcome?: GatewayError['outcome']): GatewayError {
    const { server } = this.#options;
    return new GatewayError(
      code,
      `The server ${server} ${what}.`,
      outcome === undefined ? { server } : { server, outcome },
    );
  }
}
