import type { RequestContext } from '../http/request-context.ts';
import type { SseWriter } from '../http/sse-writer.ts';
import type { Clock } from '../model/clock.ts';
import { AGGREGATE, type Flow } from '../model/exchange.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Message } from '../model/message.ts';
import { isBatch, isScanFailure, scanMessage } from '../protocol/scan.ts';
import { readBatch } from './batch.ts';
import type { ClientSession } from './client-session.ts';
import type { Gate } from './gate.ts';
import { sendError } from './send.ts';
import { MAX_IN_FLIGHT } from './session-intake.ts';
import type { SessionTable } from './session-table.ts';
import { SharedChannel, type SharedWire } from './shared-channel.ts';
import type { SingleWire } from './single-wire.ts';
import { WaitingFlows } from './waiting-flows.ts';

export interface LegacySseDeps {
  readonly gate: Gate;
  readonly sessions: SessionTable;
  readonly wire: SingleWire;
  readonly clock: Clock;
  /** New with every process: part of the ids of asks. */
  readonly prefix: string;
  readonly draining: () => boolean;
}

/**
 * HTTP+SSE of 2024-11-05: a GET opens the one stream and names the URL to post to; every answer comes on the stream.
 * The session begins and ends with it, and cannot be resumed. Caller and rights are those of every other way in.
 */
export class LegacySse {
  readonly #deps: LegacySseDeps;

  constructor(deps: LegacySseDeps) {
    this.#deps = deps;
  }

  /** GET: the stream. `server` is null for the aggregate. */
  open(context: RequestContext, server: string | null): void {
    const { gate, sessions } = this.#deps;
    const principal = gate.principal(context);
    if (principal === null) return;
    const endpoint = gate.endpoint(server, principal, context);
    if (endpoint === null) return;
    if (this.#deps.draining()) {
      sendError(context, 503, -32600, 'The gateway is stopping', '', RETRY_SOON);
      return;
    }
    let session: ClientSession;
    try {
      session = sessions.create({
        principal,
        endpoint,
        revision: '2024-11-05',
        capabilities: '{}',
        info: null,
        lasting: false,
      });
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      sendError(context, 429, error.rpcCode, error.message, '', RETRY_SOON);
      return;
    }
    const writer = context.openSse();
    writer.onClose = () => sessions.end(session, 'the client closed its stream');
    session.channel = new SharedChannel(session, new SseWire(writer), this.#deps);
    // A path, so that it holds behind any proxy that keeps paths; clients resolve it against the URL of the stream.
    const base = endpoint === AGGREGATE ? '/message' : endpoint.path.replace(/mcp$/, 'message');
    writer.named('endpoint', `${base}?sessionId=${session.mcpSessionId}`);
  }

  /** POST: a message of the client. Its answer, if any, goes onto the stream. */
  post(context: RequestContext, server: string | null): void {
    const { gate, sessions } = this.#deps;
    const principal = gate.principal(context);
    if (principal === null) return;
    const endpoint = gate.endpoint(server, principal, context);
    if (endpoint === null) return;
    const id = new URLSearchParams(context.query).get('sessionId');
    if (id === null || id === '') {
      sendError(context, 400, -32600, 'Missing sessionId');
      return;
    }
    const session = sessions.find(id);
    if (session === undefined || session.lasting || !session.belongsTo(principal, endpoint)) {
      sendError(context, 404, -32600, 'Session not found');
      return;
    }
    context.readJson((body) => this.#take(context, session, body));
  }

  #take(context: RequestContext, session: ClientSession, body: Buffer): void {
    const messages = isBatch(body) ? readBatch(body) : readOne(body);
    if (!Array.isArray(messages)) {
      const parse = messages.code === 'PARSE_ERROR';
      const words = `${parse ? 'Invalid JSON' : 'Invalid request'}: ${messages.reason}`;
      sendError(context, 400, parse ? -32700 : -32600, words, messages.id);
      return;
    }
    if (session.ended) {
      sendError(context, 404, -32600, 'Session not found');
      return;
    }
    // All or nothing: a client that is refused sends the whole again, and nothing may run twice by that.
    const requests = messages.filter(({ kind }) => kind === 'request');
    if (session.exchanges.size + requests.length > MAX_IN_FLIGHT) {
      const id = requests.length === 1 ? requests[0]!.id : '';
      sendError(context, 429, -32600, 'Too many requests in flight', id, RETRY_SOON);
      return;
    }
    for (const message of messages) {
      const fate = this.#deps.wire.take(session, session.channel as SharedChannel, message);
      if (fate === 'taken' || messages.length > 1) continue;
      sendError(context, 400, -32600, 'Nothing was asked under this id');
      return;
    }
    context.empty(202);
  }
}

const RETRY_SOON = ['retry-after', '10'];

function readOne(body: Buffer): Message[] | Exclude<ReturnType<typeof readBatch>, Message[]> {
  const message = scanMessage(body, 'stateful', 'strict');
  return isScanFailure(message) ? message : [message];
}

/** The session's one SSE stream. Events are numbered, as some clients want an id. */
class SseWire implements SharedWire {
  readonly #writer: SseWriter;
  #count = 0;
  #waiting: WaitingFlows | null = null;

  constructor(writer: SseWriter) {
    this.#writer = writer;
  }

  get open(): boolean {
    return !this.#writer.closed;
  }

  write(message: Buffer, droppable = false, flow: Flow | null = null): void {
    if (this.#writer.event(String(++this.#count), [message], droppable) || flow === null || !this.open) return;
    this.#waiting ??= new WaitingFlows();
    this.#waiting.wait(flow, this.#writer);
  }

  end(): void {
    this.#writer.end();
  }
}
