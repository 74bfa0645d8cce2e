import type { HttpClientPort } from '../../http/client/client-port.ts';
import { type Clock, pause, withTimeout } from '../../model/clock.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { bodyLexeme, bodyString, errorCode } from '../../protocol/body.ts';
import { isRejection, rejectScan, type StatelessInbound } from '../../protocol/classify.ts';
import { errorAnswer, failureAnswer } from '../../protocol/compose.ts';
import { isScanFailure, scanMessage } from '../../protocol/scan.ts';
import { oneLine, withId } from '../../protocol/splice.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { readMessages } from '../endpoints/batch.ts';
import { listenCompletion } from '../endpoints/handshake-answer.ts';
import { classifyHeaderless } from '../stateless/classify-headerless.ts';
import { AnswerWatch } from './answer-watch.ts';
import { BridgeHeaders, toolsListOf } from './bridge-headers.ts';
import { BridgeReplay } from './bridge-replay.ts';
import { ABORTED, type BridgeRequest, sendBridgeRequest } from './bridge-request.ts';
import { LineReader } from './line-reader.ts';
import { DRAIN_TIMEOUT_MS, MAX_UNREAD, type StdioStreams } from './stdio.ts';

interface StdioBridgeDeps {
  readonly client: HttpClientPort;
  /** Path of the gateway's MCP endpoint. */
  readonly path: string;
  /** Further headers for every request, such as credentials; name and value alternating. */
  readonly headers: readonly string[];
  readonly clock: Clock;
  readonly logger: Logger;
  readonly maxMessageBytes: number;
  /** How long to retry a gateway that accepts no connection. Default 5 s: about the time of a restart. */
  readonly patienceMs?: number;
}

const PATIENCE_MS = 5_000;
const PAUSE_MS = 250;
const RETRY_MS = 1_000;
/** Consecutive attempts to resume a broken stream without an event, before its call is given up. */
const RESUMPTIONS = 5;
/** Pages of a tool list that are read for the headers of a call. */
const MAX_PAGES = 1_000;
/** How long requests wait at most until a new session has the log level and the subscriptions of the lost one. */
const REPLAY_MS = 5_000;
const NOTHING = Buffer.alloc(0);
const TOO_LONG = errorAnswer('', CATALOGUE.PARSE_ERROR.rpc, 'Invalid JSON: the message is too long', null, 'stateful');

interface BridgedSession {
  readonly id: string;
  readonly revision: string;
}

/**
 * Connects a local client's pipes to the HTTP endpoint of a running gateway. Each line becomes a POST, each message of its
 * answer a line; the session's GET stream stays open. Messages are not changed.
 *
 * The client does not notice a restart of the gateway: unsent requests are sent again, broken streams are resumed, and a
 * lost session is replaced by one that the client's own `initialize` opens, with its log level and subscriptions.
 */
export class StdioBridge {
  readonly closed: Promise<void>;
  readonly #streams: Omit<StdioStreams, 'principal'>;
  readonly #deps: StdioBridgeDeps;
  readonly #lines: LineReader;
  readonly #headers = new BridgeHeaders();
  readonly #replay: BridgeReplay;
  /** Messages in flight. Their promises never reject. */
  readonly #running = new Map<AnswerWatch, Promise<void>>();
  #initialize: Message | null = null;
  #session: BridgedSession | null = null;
  #reopening: Promise<boolean> | null = null;
  #stopListening: () => void = () => {};
  #draining = false;
  #finishing = false;
  #ended = false;
  #resolveClosed!: () => void;

  constructor(streams: Omit<StdioStreams, 'principal'>, deps: StdioBridgeDeps) {
    this.#streams = streams;
    this.#deps = deps;
    this.#replay = new BridgeReplay(deps.clock, (data) => this.#write(data));
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    this.#lines = new LineReader(
      deps.maxMessageBytes,
      (line) => this.#takeLine(line),
      () => this.#write(TOO_LONG.bytes),
    );
    const { input, output } = streams;
    output.on('error', () => this.close());
    output.on('drain', () => {
      if (!this.#draining && !this.#ended) input.resume();
    });
    input.on('error', () => this.close());
    input.on('data', (chunk: Buffer) => this.#lines.push(chunk));
    input.on('end', () => {
      this.#lines.end();
      void this.#finish();
    });
  }

  /** Closes at once; calls in flight continue at the gateway. Idempotent. */
  close(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#stopListening();
    this.#streams.input.pause();
    this.#deps.client.close();
    this.#resolveClosed();
  }

  /** Takes no further input; calls in flight are still answered, then `closed` resolves. */
  drain(): void {
    this.#draining = true;
    this.#streams.input.pause();
    void this.#finish();
  }

  /** No input follows: listens are completed, calls in flight are still answered for 30 s, then the session is ended. */
  async #finish(): Promise<void> {
    if (this.#finishing) return;
    this.#finishing = true;
    this.#deps.clock.after(DRAIN_TIMEOUT_MS, () => this.close());
    for (const answer of this.#running.keys()) {
      if (!answer.listens) continue;
      answer.take(listenCompletion(answer.sent).bytes);
      callOff(answer);
    }
    await Promise.all(this.#running.values());
    this.#stopListening();
    if (this.#session !== null && !this.#ended) await this.#request('DELETE', this.#sessionHeaders(), NOTHING);
    this.close();
  }

  /** Takes a message, or a batch, whose messages are sent as if each had a line of its own. */
  #takeLine(line: Buffer): void {
    const messages = readMessages(line, this.#session?.revision ?? null);
    if (!Array.isArray(messages)) this.#write(rejectScan({}, messages).answer.bytes);
    else for (const message of messages) this.#take(message);
  }

  #take(message: Message): void {
    const inbound = classifyHeaderless(message, this.#session?.revision ?? null);
    if (isRejection(inbound)) {
      if (message.kind === 'request') this.#write(inbound.answer.bytes);
      return;
    }
    if (this.#callsOff(message)) return;
    const answer = new AnswerWatch(inbound.message, (data) => this.#write(data));
    const work = inbound.era === 'stateless' ? this.#stateless(answer, inbound) : this.#stateful(answer);
    const settled = work
      .catch((error: unknown) => this.#deps.logger.error('bridge_failed', { reason: String(error) }))
      .finally(() => this.#running.delete(answer));
    this.#running.set(answer, settled);
  }

  async #stateless(answer: AnswerWatch, inbound: StatelessInbound): Promise<void> {
    const { method } = answer.sent;
    const headers = this.#headers.of(inbound);
    let outcome = await this.#post(answer, headers);
    if (method === 'tools/call' && isHeaderMismatch(outcome)) {
      await this.#learnTools(answer, inbound);
      const fresh = this.#headers.of(inbound);
      // With the same headers, the error may be the answer of a server that has run the call.
      if (fresh.join('\n') !== headers.join('\n')) outcome = await this.#post(answer, fresh);
    }
    this.#conclude(answer, outcome);
    if (method === 'tools/list' && answer.message !== null) this.#headers.learn(answer.message);
  }

  /** Reads the tools that the caller sees: it may know them from a list that another process passed on. */
  async #learnTools(call: AnswerWatch, inbound: StatelessInbound): Promise<void> {
    let cursor: string | null = null;
    for (let page = 0; page < MAX_PAGES; page++) {
      const list = toolsListOf(inbound, cursor);
      const answer = new AnswerWatch(list.message, () => {});
      const outcome = await this.#request('POST', this.#headers.of(list), list.message.bytes, answer.take, (abort) => {
        call.abort = abort;
      });
      if (outcome.body.length > 0) answer.take(outcome.body);
      if (answer.message === null) return;
      this.#headers.learn(answer.message);
      cursor = bodyString(answer.message, 'nextCursor');
      if (cursor === null) return;
    }
  }

  async #stateful(answer: AnswerWatch): Promise<void> {
    const { sent } = answer;
    if (sent.kind === 'request' && sent.method === 'initialize' && this.#session === null) {
      this.#initialize = sent;
    }
    if (this.#reopening !== null && sent.kind === 'request') await this.#reopening;
    const session = this.#session;
    let outcome = await this.#post(answer);
    if (outcome.status === 404 && session !== null && (await this.#reopen(session))) outcome = await this.#post(answer);
    if (sent.kind !== 'request') {
      if (sent.method === 'notifications/initialized') void this.#listen();
      return;
    }
    if (answer.awaited && outcome.streamed) outcome = await this.#resumeStream(outcome, answer);
    this.#conclude(answer, outcome);
    if (sent === this.#initialize) this.#opened(outcome, answer.message);
    if (answer.message?.kind === 'result') this.#replay.record(sent);
  }

  /** Sends a message of the client, with the session's headers by default, until it arrives or is called off. */
  #post(answer: AnswerWatch, headers: readonly string[] | null = null): Promise<BridgeRequest> {
    return this.#retryUnsent(() => {
      if (answer.calledOff) return Promise.resolve(ABORTED);
      return this.#request('POST', headers ?? this.#sessionHeaders(), answer.sent.bytes, answer.take, (abort) => {
        answer.abort = abort;
      });
    });
  }

  /** Resumes a broken stream until the answer has arrived or attempts bring no further event; then the call is UNKNOWN. */
  async #resumeStream(broken: BridgeRequest, answer: AnswerWatch): Promise<BridgeRequest> {
    let outcome = broken;
    let lastEventId = broken.lastEventId;
    for (let left = RESUMPTIONS; left > 0 && lastEventId !== null && answer.awaited && !this.#ended; left--) {
      await pause(this.#deps.clock, outcome.retryMs ?? RETRY_MS);
      outcome = await this.#retryUnsent(() =>
        this.#request('GET', [...this.#sessionHeaders(), 'Last-Event-ID', lastEventId!], NOTHING, answer.take),
      );
      if (!outcome.streamed && outcome.failure === null) break;
      if (outcome.lastEventId === null) continue;
      lastEventId = outcome.lastEventId;
      left = RESUMPTIONS;
    }
    if (answer.awaited) {
      // The call may have run, whatever the gateway says of its stream.
      const why = outcome.failure?.message ?? `HTTP status ${outcome.status}`;
      const error = new GatewayError('UNKNOWN', `the answer broke off and could not be resumed (${why})`);
      answer.take(failureAnswer(answer.sent.id, error, answer.sent.era).bytes);
    }
    return outcome;
  }

  /** Answers a client that has no answer yet: with the gateway's own error, or with a failure that describes the loss. */
  #conclude(answer: AnswerWatch, outcome: BridgeRequest): void {
    const message = answer.sent;
    if (!answer.awaited) return;
    const said = outcome.body.length > 0 ? scanMessage(outcome.body, message.era, 'relaxed') : null;
    if (said !== null && !isScanFailure(said)) {
      // An error without an id is a refusal before the gateway read the request.
      const refused = said.kind === 'error' && said.id === '';
      if (refused && (outcome.status === 401 || outcome.status === 403)) {
        const text = `The gateway refused this client: ${bodyString(said, 'message') ?? outcome.status}`;
        this.#write(failureAnswer(message.id, new GatewayError('ACCESS_DENIED', text), message.era).bytes);
        return;
      }
      answer.take(refused ? Buffer.concat(withId(said, message.id)) : outcome.body);
    }
    if (answer.came) return;
    const { failure, status } = outcome;
    const words = failure === null ? `the gateway answered with HTTP status ${status}` : failure.message;
    const unsent = failure?.kind === 'malformed' ? 'INVALID_REQUEST' : 'NOT_SENT';
    const error = new GatewayError(failure?.sent === false ? unsent : 'UNKNOWN', words);
    this.#write(failureAnswer(message.id, error, message.era).bytes);
  }

  #opened(outcome: BridgeRequest, answer: Message | null): void {
    const id = outcome.headers?.get('mcp-session-id');
    if (id === undefined || answer?.kind !== 'result') return;
    this.#session = { id, revision: bodyString(answer, 'protocolVersion') ?? '' };
  }

  /** Opens a new session in place of one that the gateway no longer knows. False if that fails. */
  #reopen(lost: BridgedSession): Promise<boolean> {
    if (this.#session !== lost) return Promise.resolve(this.#session !== null);
    this.#reopening ??= this.#openAgain().finally(() => {
      this.#reopening = null;
    });
    return this.#reopening;
  }

  async #openAgain(): Promise<boolean> {
    if (this.#initialize === null) return false;
    const answer = new AnswerWatch(this.#initialize, () => {});
    this.#deps.logger.info('session_reopened');
    const outcome = await this.#request('POST', [], this.#initialize.bytes, answer.take);
    if (outcome.body.length > 0) answer.take(outcome.body);
    const before = this.#session;
    this.#opened(outcome, answer.message);
    const session = this.#session;
    if (session === before) return false;
    const headers = this.#sessionHeaders();
    const initialized = Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    await this.#request('POST', headers, initialized);
    void this.#listen();
    const replayed = this.#replay.run(
      ({ bytes }, onMessage) => this.#request('POST', headers, bytes, onMessage),
      () => this.#ended || this.#session !== session,
    );
    await withTimeout(this.#deps.clock, REPLAY_MS, replayed, () => {});
    return true;
  }

  /** Holds the session's GET stream open, until the session is replaced or the gateway offers no stream. */
  async #listen(): Promise<void> {
    this.#stopListening();
    const session = this.#session;
    let lastEventId: string | null = null;
    while (session !== null && session === this.#session && !this.#ended) {
      const resume: string[] = lastEventId === null ? [] : ['Last-Event-ID', lastEventId];
      const outcome = await this.#request(
        'GET',
        [...this.#sessionHeaders(), ...resume],
        NOTHING,
        (data) => this.#write(data),
        (abort) => {
          this.#stopListening = abort;
        },
      );
      if (outcome === ABORTED || outcome.status === 405) return;
      if (outcome.status === 404) {
        const opensThis = this.#reopening !== null;
        await this.#reopen(session);
        // The session that was being opened is lost too: it is replaced next.
        if (!opensThis || this.#session !== session) return;
      }
      lastEventId = outcome.status === 400 ? null : (outcome.lastEventId ?? lastEventId);
      await pause(this.#deps.clock, outcome.retryMs ?? RETRY_MS);
    }
  }

  /** Calls off the request that a cancellation names; true if that says it all, as for a stateless one. */
  #callsOff(message: Message): boolean {
    if (message.method !== 'notifications/cancelled') return false;
    const id = bodyLexeme(message, 'requestId');
    for (const answer of this.#running.keys()) {
      const { kind, era, method } = answer.sent;
      if (kind !== 'request' || answer.sent.id !== id || method === 'initialize') continue;
      callOff(answer);
      return era === 'stateless';
    }
    return false;
  }

  /** Repeats a request that was not sent, until `patienceMs` has passed. */
  async #retryUnsent(attempt: () => Promise<BridgeRequest>): Promise<BridgeRequest> {
    const end = this.#deps.clock.now() + (this.#deps.patienceMs ?? PATIENCE_MS);
    for (;;) {
      const outcome = await attempt();
      const { failure } = outcome;
      if (failure === null || failure.sent || failure.kind === 'malformed') return outcome;
      if (this.#deps.clock.now() >= end || this.#ended) return outcome;
      await pause(this.#deps.clock, PAUSE_MS);
    }
  }

  #request(
    method: string,
    headers: readonly string[],
    body: Buffer,
    onMessage: (data: Buffer) => void = () => {},
    onStart?: (abort: () => void) => void,
  ): Promise<BridgeRequest> {
    const { client, path } = this.#deps;
    const type = body.length === 0 ? [] : ['Content-Type', 'application/json'];
    const accept = method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream';
    const all = ['Accept', accept, ...type, ...this.#deps.headers, ...headers];
    return sendBridgeRequest(
      client,
      { method, path, headers: all, body: body.length === 0 ? [] : [body] },
      onMessage,
      onStart,
    );
  }

  #sessionHeaders(): string[] {
    if (this.#session === null) return [];
    return ['Mcp-Session-Id', this.#session.id, 'Mcp-Protocol-Version', this.#session.revision];
  }

  #write(message: Buffer): void {
    if (this.#ended) return;
    const { input, output } = this.#streams;
    if (!output.write(Buffer.concat([oneLine(message), NEWLINE]))) input.pause();
    if (output.writableLength > MAX_UNREAD) this.close();
  }
}

const NEWLINE = Buffer.from('\n');

/** The bridge writes no further answer to it. The end of its stream cancels a stateless request at the gateway. */
function callOff(answer: AnswerWatch): void {
  answer.calledOff = true;
  if (answer.sent.era === 'stateless') answer.abort();
}

/** Only of a plain answer: what comes on a stream has been passed on. */
function isHeaderMismatch({ status, body }: BridgeRequest): boolean {
  const said = status === 400 && body.length > 0 ? scanMessage(body, 'stateless', 'relaxed') : null;
  if (said === null || isScanFailure(said) || said.kind !== 'error') return false;
  return errorCode(said) === CATALOGUE.HEADER_MISMATCH.rpc;
}
