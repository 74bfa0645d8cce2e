import type { RequestContext } from '../../http/listener/request-context.ts';
import type { SseWriter } from '../../http/sse/sse-writer.ts';
import { CATALOGUE } from '../../model/error-catalogue.ts';
import { AGGREGATE, type Flow } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { PostAnswer, StreamPost } from '../../model/stream-copies.ts';
import { scanFailureText } from '../../protocol/classify.ts';
import type { ClientTransportDeps } from '../client-transport-deps.ts';
import { readMessages } from '../endpoints/batch.ts';
import { sendError } from '../endpoints/send.ts';
import type { ClientSession } from '../session/client-session.ts';
import { PausedFlows } from '../session/paused-flows.ts';
import { MAX_IN_FLIGHT } from '../session/session-intake.ts';
import { SharedChannel, type SharedWire } from '../session/shared-channel.ts';

/**
 * HTTP+SSE of 2024-11-05: a GET opens the only stream and names the URL to post to; every answer is sent on the stream. The
 * session begins and ends with it and cannot be resumed. Authentication and rights are those of all transports.
 */
export class LegacySse {
  readonly #deps: ClientTransportDeps;
  readonly #open = new Set<ClientSession>();

  constructor(deps: ClientTransportDeps) {
    this.#deps = deps;
  }

  get sessionCount(): number {
    return this.#open.size;
  }

  /** Sends a notification to every open session and returns their number. */
  broadcast(message: Message): number {
    for (const session of this.#open) session.channel?.deliver(message);
    return this.#open.size;
  }

  /** GET: opens the stream. `server` is null for the aggregate. */
  open(context: RequestContext, server: string | null): void {
    const { gate, sessions, endpoints } = this.#deps;
    const admitted = gate.admit(context, server);
    if (admitted === null) return;
    const { principal, endpoint } = admitted;
    if (this.#deps.draining()) {
      sendError(context, 503, 'The gateway is stopping', '', RETRY_SOON);
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
        forwarded: endpoints.forwardedOf(endpoint, context.headers),
        persistent: false,
      });
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      sendError(context, 429, error.message, '', RETRY_SOON, error.rpcCode);
      return;
    }
    const writer = context.openSse();
    this.#open.add(session);
    writer.onClose = () => sessions.end(session, 'the client closed its stream');
    const wire = new SseWire(writer, () => this.#open.delete(session));
    session.channel = new SharedChannel(session, wire, this.#deps);
    // Without a known public origin this is a path, which clients resolve against the URL of the stream.
    const base = endpoint === AGGREGATE ? '/message' : endpoint.path.replace(/mcp$/, 'message');
    // The client's POST can arrive at any node; `node` names the one that has the stream.
    const { others } = this.#deps;
    const at = others === undefined ? '' : `&node=${others.self}`;
    writer.named('endpoint', `${context.forwardedOrigin}${base}?sessionId=${session.mcpSessionId}${at}`);
  }

  /** POST: takes a message of the client. Its answer, if any, is sent on the stream. */
  post(context: RequestContext, server: string | null): void {
    const admitted = this.#deps.gate.admit(context, server);
    if (admitted === null) return;
    const { principal, endpoint } = admitted;
    const query = new URLSearchParams(context.query);
    const sessionId = query.get('sessionId') ?? '';
    if (sessionId === '') {
      sendError(context, 400, 'Missing sessionId');
      return;
    }
    const post = (body: Buffer): StreamPost => ({ sessionId, principal: principal.id, endpoint: endpoint.path, body });
    const { others } = this.#deps;
    const node = query.get('node');
    if (others !== undefined && node !== null && node !== others.self) {
      context.readJson((body) => {
        void others.posted(node, post(body)).then((answer) => send(context, answer ?? UNKNOWN_SESSION));
      });
    } else if (this.#session(post(NOTHING)) === null) send(context, UNKNOWN_SESSION);
    else context.readJson((body) => send(context, this.acceptPost(post(body))));
  }

  /** Takes a message that was posted here or to another node. */
  acceptPost(post: StreamPost): PostAnswer {
    const session = this.#session(post);
    return session === null ? UNKNOWN_SESSION : this.#take(session, post.body);
  }

  #session({ sessionId, principal, endpoint }: StreamPost): ClientSession | null {
    const session = this.#deps.sessions.find(sessionId);
    const theirs = session?.client.principal.id === principal && session.endpoint.path === endpoint;
    return session === undefined || session.persistent || session.ended || !theirs ? null : session;
  }

  #take(session: ClientSession, body: Buffer): PostAnswer {
    const channel = session.channel as SharedChannel;
    const messages = readMessages(body, session.client.revision);
    if (!Array.isArray(messages)) {
      const { code, id } = messages;
      // A fault in a request's params is the answer to that request, which this client reads from its stream.
      if (code === 'INVALID_PARAMS' && id !== '') {
        channel.refuse(id, CATALOGUE[code].rpc, scanFailureText(messages));
        return TAKEN;
      }
      return { status: 400, code: CATALOGUE[code].rpc, text: scanFailureText(messages), id };
    }
    // All or nothing: a refused client sends the whole batch again, and no message may be processed twice.
    const requests = messages.filter(({ kind }) => kind === 'request');
    if (session.exchanges.size + requests.length > MAX_IN_FLIGHT) {
      const id = requests.length === 1 ? requests[0]!.id : '';
      return { status: 429, code: INVALID, text: 'Too many requests in flight', id };
    }
    for (const message of messages) {
      const status = channel.take(message);
      if (status === 'taken' || messages.length > 1) continue;
      return { status: 400, code: INVALID, text: 'Nothing was asked under this id', id: '' };
    }
    return TAKEN;
  }
}

const NOTHING = Buffer.alloc(0);
const INVALID = CATALOGUE.INVALID_REQUEST.rpc;
const TAKEN: PostAnswer = { status: 202, code: 0, text: '', id: '' };
const UNKNOWN_SESSION: PostAnswer = { status: 404, code: INVALID, text: 'Session not found', id: '' };

function send(context: RequestContext, { status, code, text, id }: PostAnswer): void {
  if (code === 0) context.empty(status);
  else sendError(context, status, text, id, status === 429 || status === 503 ? RETRY_SOON : undefined, code);
}

const RETRY_SOON = ['retry-after', '10'];

/** The session's only SSE stream. Events are numbered, because some clients require an id. */
class SseWire implements SharedWire {
  readonly #writer: SseWriter;
  readonly #onEnd: () => void;
  #count = 0;
  #waiting: PausedFlows | null = null;

  /** `onEnd`: called when the session ends. The writer reports only an end before everything is sent. */
  constructor(writer: SseWriter, onEnd: () => void) {
    this.#writer = writer;
    this.#onEnd = onEnd;
  }

  get open(): boolean {
    return !this.#writer.closed;
  }

  write(message: Buffer, droppable = false, flow: Flow | null = null): void {
    if (this.#writer.event(String(++this.#count), [message], droppable) || flow === null || !this.open) return;
    this.#waiting ??= new PausedFlows();
    this.#waiting.pause(flow, this.#writer);
  }

  end(): void {
    this.#onEnd();
    this.#writer.end();
  }
}
