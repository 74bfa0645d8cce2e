import type { Readable, Writable } from 'node:stream';
import { ANONYMOUS, type Principal } from '../../model/client-profile.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import { AGGREGATE, type Endpoint, type Flow } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import { LATEST_STATEFUL } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import { bodyLexeme, cancellationReason } from '../../protocol/body.ts';
import type { StatelessInbound } from '../../protocol/classify.ts';
import { isRejection, rejectScan } from '../../protocol/classify.ts';
import { errorAnswer } from '../../protocol/compose.ts';
import { oneLine } from '../../protocol/splice.ts';
import type { ClientTransportDeps } from '../client-transport-deps.ts';
import { readMessages } from '../endpoints/batch.ts';
import { withUrlElicitations } from '../pending-input/url-elicitation-required.ts';
import { answerParts, notificationFor } from '../session/answer-parts.ts';
import { ClientExchange, type Reply } from '../session/client-exchange.ts';
import type { ClientSession } from '../session/client-session.ts';
import { PausedFlows } from '../session/paused-flows.ts';
import { MAX_IN_FLIGHT } from '../session/session-intake.ts';
import { SharedChannel, type SharedWire } from '../session/shared-channel.ts';
import { classifyHeaderless } from '../stateless/classify-headerless.ts';
import { StatelessIntake } from '../stateless/stateless-intake.ts';
import { LineReader } from './line-reader.ts';

/** The pipes of the client that started this process. */
export interface StdioStreams {
  readonly input: Readable;
  readonly output: Writable;
  /** The caller; `ANONYMOUS` by default. */
  readonly principal?: Principal;
  /** The endpoint that the client talks to; by default the aggregate. */
  readonly endpoint?: Endpoint;
}

/** How long calls in flight may continue after the client has closed its end. */
export const DRAIN_TIMEOUT_MS = 30_000;
/** Bytes that may wait for a client that does not read. Above it the client is disconnected. */
export const MAX_UNREAD = 64 * 1024 * 1024;

/**
 * The gateway as a local MCP server: one JSON-RPC message per line, both eras on the same pair of streams. It writes
 * nothing but messages. When the input ends, calls in flight are still answered; then `closed` resolves.
 */
export class StdioHandler implements SharedWire {
  readonly closed: Promise<void>;
  readonly #streams: StdioStreams;
  readonly #deps: ClientTransportDeps;
  readonly #session: ClientSession;
  readonly #channel: SharedChannel;
  readonly #stateless: StatelessWire;
  readonly #lines: LineReader;
  readonly #waiting = new PausedFlows();
  /** Set while flows wait for the client to read. */
  onDrain: (() => void) | null = null;
  #resolveClosed!: () => void;
  #ended = false;
  #draining = false;
  #inputEnded = false;

  constructor(streams: StdioStreams, deps: ClientTransportDeps, maxMessageBytes: number) {
    this.#streams = streams;
    this.#deps = deps;
    const { input, output, principal = ANONYMOUS, endpoint = AGGREGATE } = streams;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    this.#session = deps.sessions.create({
      principal,
      endpoint,
      revision: LATEST_STATEFUL,
      capabilities: '{}',
      info: null,
      persistent: false,
    });
    this.#channel = new SharedChannel(this.#session, this, deps);
    this.#session.channel = this.#channel;
    this.#stateless = new StatelessWire(deps, this, this.#session);
    this.#lines = new LineReader(
      maxMessageBytes,
      (line) => this.#takeLine(line),
      () => this.#refuse(CATALOGUE.PARSE_ERROR.rpc, `Invalid JSON: a message of more than ${maxMessageBytes} bytes`),
    );
    output.on('error', () => this.close());
    output.on('drain', () => {
      input.resume();
      this.onDrain?.();
    });
    input.on('error', () => this.close());
    input.on('end', () => this.#finishInput());
    input.on('data', (chunk: Buffer) => this.#lines.push(chunk));
  }

  get open(): boolean {
    return !this.#ended;
  }

  write(message: Buffer, _droppable = false, flow: Flow | null = null): void {
    if (this.#ended) return;
    const { input, output } = this.#streams;
    // A client that does not read gets no further work until it does.
    if (!output.write(Buffer.concat([message, NEWLINE]))) {
      input.pause();
      if (flow !== null) this.#waiting.pause(flow, this);
    }
    if (output.writableLength > MAX_UNREAD) this.close();
    else if (this.#inputEnded) setImmediate(() => this.#closeIfIdle());
  }

  /** Requests in flight that belong to no session. */
  get inFlight(): number {
    return this.#stateless.intake.exchanges.size;
  }

  /** Takes no new requests; calls in flight are still answered, and the client can still answer requests of servers. */
  drain(reason: string): void {
    this.#draining = true;
    this.#stateless.intake.completeListens(reason);
  }

  /** Ends the calls in flight that belong to no session; their outcome is unknown. */
  cutShort(end: (exchange: ClientExchange) => void): void {
    for (const exchange of this.#stateless.intake.exchanges.all()) end(exchange);
  }

  /** The session has ended: nothing more is written, and calls in flight end. */
  end(): void {
    this.#ended = true;
    this.#stateless.close('the session has ended');
    this.#resolveClosed();
  }

  /** Ends the session and all calls in flight. Idempotent. */
  close(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#stateless.close('the client is gone');
    this.#deps.sessions.end(this.#session, 'the client is gone');
    this.#streams.input.pause();
    this.#resolveClosed();
  }

  /** The revision that the client's `initialize` agreed on; null before it. */
  get #revision(): string | null {
    return this.#session.initializeReceived ? this.#session.client.revision : null;
  }

  /** Takes a message, or a batch, whose messages are taken as if each had a line of its own. */
  #takeLine(line: Buffer): void {
    const messages = readMessages(line, this.#revision);
    if (!Array.isArray(messages)) this.write(rejectScan({}, messages).answer.bytes);
    else for (const message of messages) this.#take(message);
  }

  #take(message: Message): void {
    // The rest of a chunk, or of a pipe whose session has ended: its messages could not be answered.
    if (this.#ended) return;
    if (this.#draining && message.kind === 'request') {
      this.#refuse(CATALOGUE.INVALID_REQUEST.rpc, 'The gateway is stopping', message.id);
      return;
    }
    this.#session.lastUsed = this.#deps.clock.now();
    const inbound = classifyHeaderless(message, this.#revision);
    if (isRejection(inbound)) {
      // A notification has no answer.
      if (message.kind === 'request') this.write(inbound.answer.bytes);
      return;
    }
    if (inbound.era === 'stateless') {
      this.#stateless.take(inbound);
      return;
    }
    if (message.kind === 'notification' && this.#stateless.cancels(message)) return;
    if (this.#channel.take(inbound.message) === 'full') {
      this.#refuse(CATALOGUE.INVALID_REQUEST.rpc, 'Too many requests in flight', message.id);
    }
  }

  #refuse(code: number, text: string, id = ''): void {
    this.write(errorAnswer(id, code, text, null, 'stateful').bytes);
  }

  #finishInput(): void {
    this.#lines.end();
    this.#inputEnded = true;
    this.#stateless.intake.completeListens('the client closed its end');
    this.#deps.clock.after(DRAIN_TIMEOUT_MS, () => this.close());
    this.#closeIfIdle();
  }

  #closeIfIdle(): void {
    if (this.#session.exchanges.size === 0 && this.#stateless.intake.exchanges.size === 0) this.close();
  }
}

const NEWLINE = Buffer.from('\n');

/** Requests of 2026-07-28 on a wire that carries all messages: identified by their ids, cancelled by notification. */
class StatelessWire implements Reply {
  readonly intake: StatelessIntake;
  readonly canAsk = true;
  readonly #deps: ClientTransportDeps;
  readonly #wire: SharedWire;
  /** The session of the wire: its caller's rights may change. */
  readonly #session: ClientSession;

  constructor(deps: ClientTransportDeps, wire: SharedWire, session: ClientSession) {
    this.#deps = deps;
    this.intake = new StatelessIntake(deps);
    this.#wire = wire;
    this.#session = session;
  }

  get #endpoint(): Endpoint {
    return this.#session.endpoint;
  }

  take(inbound: StatelessInbound): void {
    const { message } = inbound;
    const client = this.intake.senderOf(inbound, this.#session.client.principal, null);
    if (message.kind !== 'request') {
      if (!this.cancels(message)) this.#deps.core.notify(this.#endpoint, message, client);
      return;
    }
    if (this.intake.exchanges.size >= MAX_IN_FLIGHT) {
      this.#wire.write(
        errorAnswer(message.id, CATALOGUE.INVALID_REQUEST.rpc, 'Too many requests in flight', null, 'stateless').bytes,
      );
      return;
    }
    const exchange = new ClientExchange(message, client, this);
    void this.intake.run(exchange, this.#endpoint, this.intake.matchRetry(exchange, this.#endpoint, null));
  }

  /** Cancels the request that the notification names; false if it is none of these requests. */
  cancels(notification: Message): boolean {
    if (notification.method !== 'notifications/cancelled') return false;
    const id = bodyLexeme(notification, 'requestId');
    if (id === null) return false;
    const exchange = this.intake.exchanges.find(id);
    exchange?.cancel(cancellationReason(notification));
    return exchange !== null;
  }

  close(reason: string): void {
    this.intake.exchanges.cancelAll(reason);
    this.#deps.pendingInput.onWireClosed(this, reason);
  }

  notify(exchange: ClientExchange, notification: Message, flow: Flow | null): void {
    const bytes = notificationFor('stateless', notification, exchange.client);
    if (bytes === null) return;
    this.#deps.wires.tap?.client(exchange.client, this.#endpoint, 'gateway', [bytes], exchange.id);
    this.#wire.write(oneLine(bytes), true, flow);
  }

  async askFor(exchange: ClientExchange, request: Message): Promise<Message> {
    this.#deps.pendingInput.begin(exchange, this.intake.exchanges, this.#endpoint, this);
    return exchange.ask(request);
  }

  answer(exchange: ClientExchange, given: Outcome): void {
    const outcome = withUrlElicitations(given, exchange, this.#endpoint, this.#deps.pendingInput);
    this.intake.exchanges.remove(exchange);
    const parts = answerParts(exchange.request, this.#endpoint, outcome);
    this.#deps.wires.tap?.client(exchange.client, this.#endpoint, 'gateway', parts, exchange.id);
    this.#wire.write(oneLine(parts.length === 1 ? parts[0]! : Buffer.concat(parts)));
  }

  cancelled(exchange: ClientExchange): void {
    this.intake.exchanges.remove(exchange);
  }
}
