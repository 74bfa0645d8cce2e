import type { HttpClientPort } from '../../http/client/client-port.ts';
import { type Clock, pause } from '../../model/clock.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { bodyLexeme, bodyString } from '../../protocol/body.ts';
import { isRejection, rejectScan } from '../../protocol/classify.ts';
import { errorAnswer, failureAnswer } from '../../protocol/compose.ts';
import { isScanFailure, scanMessage } from '../../protocol/scan.ts';
import { oneLine, withId } from '../../protocol/splice.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { classifyHeaderless } from '../stateless/classify-headerless.ts';
import { BridgeHeaders } from './bridge-headers.ts';
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
 * lost session is replaced by one that the client's own `initialize` opens.
 */
export class StdioBridge {
  readonly closed: Promise<void>;
  readonly #streams: Omit<StdioStreams, 'principal'>;
  readonly #deps: StdioBridgeDeps;
  readonly #lines: LineReader;
  readonly #headers = new BridgeHeaders();
  /** They never reject. */
  readonly #running = new Set<Promise<void>>();
  /** Stateless requests in flight by id: closing their stream cancels them. */
  readonly #abort = new Map<string, () => void>();
  #initialize: Message | null = null;
  #session: BridgedSession | null = null;
  #reopening: Promise<boolean> | null = null;
  #stopListening: () => void = () => {};
  #draining = false;
  #ended = false;
  #resolveClosed!: () => void;

  constructor(streams: Omit<StdioStreams, 'principal'>, deps: StdioBridgeDeps) {
    this.#streams = streams;
    this.#deps = deps;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    this.#lines = new LineReader(
      deps.maxMessageBytes,
      (line) => this.#take(line),
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
    this.#deps.clock.after(DRAIN_TIMEOUT_MS, () => this.close());
    void this.#finish();
  }

  /** No input follows: calls in flight are still answered, then the session is ended. */
  async #finish(): Promise<void> {
    await Promise.all(this.#running);
    this.#stopListening();
    if (this.#session !== null && !this.#ended) await this.#request('DELETE', this.#sessionHeaders(), NOTHING);
    this.close();
  }

  #take(line: Buffer): void {
    const message = scanMessage(line, 'stateful', 'strict');
    if (isScanFailure(message)) {
      this.#write(rejectScan({}, message).answer.bytes);
      return;
    }
    const inbound = classifyHeaderless(message);
    if (isRejection(inbound)) {
      if (message.kind === 'request') this.#write(inbound.answer.bytes);
      return;
    }
    if (this.#cancelsStateless(message)) return;
    const work =
      inbound.era === 'stateless' ? this.#stateless(message, this.#headers.of(inbound)) : this.#stateful(message);
    const settled: Promise<void> = work
      .catch((error: unknown) => this.#deps.logger.error('bridge_failed', { reason: String(error) }))
      .finally(() => this.#running.delete(settled));
    this.#running.add(settled);
  }

  async #stateless(message: Message, headers: readonly string[]): Promise<void> {
    const answer = new AnswerWatch(message, (data) => this.#write(data));
    let calledOff = false;
    const outcome = await this.#retryUnsent(() => {
      if (calledOff) return Promise.resolve(ABORTED);
      return this.#request('POST', headers, message.bytes, answer.take, (abort) => {
        if (message.kind !== 'request') return;
        this.#abort.set(message.id, () => {
          calledOff = true;
          abort();
        });
      });
    });
    this.#abort.delete(message.id);
    if (calledOff) return;
    this.#conclude(message, answer, outcome);
    if (message.method === 'tools/list' && answer.message !== null) this.#headers.learn(answer.message);
  }

  async #stateful(message: Message): Promise<void> {
    if (message.kind === 'request' && message.method === 'initialize' && this.#session === null) {
      this.#initialize = message;
    }
    const answer = new AnswerWatch(message, (data) => this.#write(data));
    let session = this.#session;
    let outcome = await this.#retryUnsent(() =>
      this.#request('POST', this.#sessionHeaders(), message.bytes, answer.take),
    );
    if (outcome.status === 404 && session !== null && (await this.#reopen(session))) {
      session = this.#session;
      outcome = await this.#retryUnsent(() =>
        this.#request('POST', this.#sessionHeaders(), message.bytes, answer.take),
      );
    }
    if (message.kind !== 'request') {
      if (message.method === 'notifications/initialized') void this.#listen();
      return;
    }
    if (!answer.came && outcome.streamed) outcome = await this.#resumeStream(outcome, answer);
    this.#conclude(message, answer, outcome);
    if (message === this.#initialize) this.#opened(outcome, answer.message);
  }

  /** Resumes a broken stream until the answer has arrived or attempts bring no further event. */
  async #resumeStream(broken: BridgeRequest, answer: AnswerWatch): Promise<BridgeRequest> {
    let outcome = broken;
    let lastEventId = broken.lastEventId;
    for (let left = RESUMPTIONS; left > 0 && lastEventId !== null && !answer.came && !this.#ended; left--) {
      await pause(this.#deps.clock, outcome.retryMs ?? RETRY_MS);
      outcome = await this.#retryUnsent(() =>
        this.#request('GET', [...this.#sessionHeaders(), 'Last-Event-ID', lastEventId!], NOTHING, answer.take),
      );
      if (!outcome.streamed && outcome.failure === null) break;
      if (outcome.lastEventId === null) continue;
      lastEventId = outcome.lastEventId;
      left = RESUMPTIONS;
    }
    return outcome;
  }

  /** Answers a client that has no answer yet: with the gateway's own error, or with a failure that describes the loss. */
  #conclude(message: Message, answer: AnswerWatch, outcome: BridgeRequest): void {
    if (message.kind !== 'request' || answer.came) return;
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
    const error = new GatewayError(failure?.sent === false ? 'NOT_SENT' : 'UNKNOWN', words);
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
    if (this.#session === before) return false;
    const initialized = Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    await this.#request('POST', this.#sessionHeaders(), initialized);
    void this.#listen();
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
        await this.#reopen(session);
        return;
      }
      lastEventId = outcome.status === 400 ? null : (outcome.lastEventId ?? lastEventId);
      await pause(this.#deps.clock, outcome.retryMs ?? RETRY_MS);
    }
  }

  #cancelsStateless(message: Message): boolean {
    if (message.method !== 'notifications/cancelled') return false;
    const id = bodyLexeme(message, 'requestId') ?? '';
    const abort = this.#abort.get(id);
    if (abort === undefined) return false;
    this.#abort.delete(id);
    abort();
    return true;
  }

  /** Repeats a request that was not sent, until `patienceMs` has passed. */
  async #retryUnsent(attempt: () => Promise<BridgeRequest>): Promise<BridgeRequest> {
    const end = this.#deps.clock.now() + (this.#deps.patienceMs ?? PATIENCE_MS);
    for (;;) {
      const outcome = await attempt();
      if (outcome.failure === null || outcome.failure.sent || this.#deps.clock.now() >= end || this.#ended) {
        return outcome;
      }
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
/** Passes messages on and detects the answer to one request. */
class AnswerWatch {
  message: Message | null = null;
  readonly #id: string;
  readonly #write: (data: Buffer) => void;

  constructor(request: Message, write: (data: Buffer) => void) {
    this.#id = request.kind === 'request' ? request.id : '';
    this.#write = write;
  }

  get came(): boolean {
    return this.message !== null;
  }

  readonly take = (data: Buffer): void => {
    const scanned = scanMessage(data, 'stateful', 'relaxed');
    if (isScanFailure(scanned)) return;
    if ((scanned.kind === 'result' || scanned.kind === 'error') && scanned.id === this.#id && this.#id !== '') {
      this.message = scanned;
    }
    this.#write(data);
  };
}
