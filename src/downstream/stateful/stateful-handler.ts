import type { RequestContext } from '../../http/listener/request-context.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { EventSink } from '../../model/stream-copies.ts';
import { rejectScan, type StatefulInbound } from '../../protocol/classify.ts';
import { failureAnswer } from '../../protocol/compose.ts';
import { readBatch } from '../endpoints/batch.ts';
import { initializeAnswer } from '../endpoints/handshake-answer.ts';
import { sendError, sendMessage } from '../endpoints/send.ts';
import type { Admitted } from '../identity/gate.ts';
import type { ClientSession } from '../session/client-session.ts';
import { readInitialize } from '../session/initialize.ts';
import { MAX_IN_FLIGHT } from '../session/session-intake.ts';
import { StandaloneStreams } from '../session/standalone-streams.ts';
import { StreamResumption } from '../session/stream-resumption.ts';
import { type StatefulDeps, StatefulReply } from './stateful-reply.ts';

/** What the head of a request says of its session. */
type SessionClaim = Pick<StatefulInbound, 'sessionId' | 'revision'>;

const RETRY_SOON = ['retry-after', '10'];

/** Streamable HTTP with sessions: 2025-03-26, 2025-06-18 and 2025-11-25. */
export class StatefulHandler {
  readonly #deps: StatefulDeps;
  readonly #resumption: StreamResumption;

  constructor(deps: StatefulDeps) {
    this.#deps = deps;
    this.#resumption = new StreamResumption({ ...deps, standalone: (session) => this.#standalone(session) });
  }

  /** Takes a single message of a POST. Returns a promise only if it has to wait. */
  take(
    context: RequestContext,
    inbound: StatefulInbound,
    admitted: Admitted,
    takesStream: boolean,
  ): Promise<void> | undefined {
    const { message } = inbound;
    if (inbound.sessionId === null && message.method === 'initialize' && message.kind === 'request') {
      return this.#initialize(context, message, admitted);
    }
    const found = this.#session(context, inbound, admitted, message.id);
    if (found instanceof Promise) return found.then((session) => this.#taken(context, session, message, takesStream));
    this.#taken(context, found, message, takesStream);
    return undefined;
  }

  /** Takes a POST whose body is an array. */
  async batch(
    context: RequestContext,
    claim: SessionClaim,
    body: Buffer,
    admitted: Admitted,
    takesStream: boolean,
  ): Promise<void> {
    const session = await this.#session(context, claim, admitted, '');
    if (session === null) return;
    const messages = readBatch(body, session.client.revision);
    if (!Array.isArray(messages)) {
      const rejection = rejectScan(context.headers, messages);
      return sendMessage(context, rejection.reject, rejection.answer);
    }
    const requests = messages.filter((message) => message.kind === 'request');
    if (requests.some((request) => request.method === 'initialize')) {
      return sendError(context, 400, 'initialize cannot be part of a batch');
    }
    const { intake, endpoints } = this.#deps;
    session.forwards(endpoints.forwardedOf(session.endpoint, context.headers));
    if (session.exchanges.size + requests.length > MAX_IN_FLIGHT) {
      return sendError(context, 429, 'Too many requests in flight in this session', '', RETRY_SOON);
    }
    for (const message of messages) {
      if (message.kind === 'notification') intake.notification(session, message);
      else if (message.kind !== 'request') intake.answer(session, message);
    }
    if (requests.length === 0) return context.empty(202);
    const reply = new StatefulReply(this.#deps, session, context, takesStream, requests.length);
    for (const request of requests) intake.request(session, request, reply);
  }

  /** GET: opens a stream of the session, or resumes one. */
  async listen(
    context: RequestContext,
    claim: SessionClaim,
    admitted: Admitted,
    lastEventId: string | null,
  ): Promise<void> {
    const session = await this.#session(context, claim, admitted, '');
    if (session === null) return;
    if (this.#deps.draining()) return sendError(context, 503, 'The gateway is stopping', '', RETRY_SOON);
    // After a restart a stream comes first, and subscriptions are made again for it.
    if (session.client.forwarded === undefined)
      session.forwards(this.#deps.endpoints.forwardedOf(session.endpoint, context.headers));
    if (lastEventId === null) return this.#standalone(session).connect(context.openSse());
    return this.#resumption.resume(context, session, lastEventId);
  }

  /** DELETE: the client ends its session. */
  async end(context: RequestContext, claim: SessionClaim, admitted: Admitted): Promise<void> {
    const session = await this.#session(context, claim, admitted, '');
    if (session === null) return;
    this.#deps.sessions.end(session, 'the client ended its session');
    context.empty(204);
  }

  #taken(context: RequestContext, session: ClientSession | null, message: Message, takesStream: boolean): void {
    if (session === null) return;
    const { intake, endpoints } = this.#deps;
    // Set just before the message is processed: another request may have waited for the session at the same time.
    session.forwards(endpoints.forwardedOf(session.endpoint, context.headers));
    switch (message.kind) {
      case 'request':
        if (message.method === 'initialize') {
          sendError(context, 400, 'The session is initialized already', message.id);
        } else if (intake.full(session)) {
          sendError(context, 429, 'Too many requests in flight in this session', message.id, RETRY_SOON);
        } else intake.request(session, message, new StatefulReply(this.#deps, session, context, takesStream, 0));
        return;
      case 'notification':
        intake.notification(session, message);
        context.empty(202);
        return;
      default:
        if (intake.answer(session, message) !== 'unknown') context.empty(202);
        else sendError(context, 400, 'Nothing was asked under this id');
    }
  }

  /** The session of the request; null if the request was answered. Waits only for a session that has to be loaded. */
  #session(
    context: RequestContext,
    claim: SessionClaim,
    admitted: Admitted,
    requestId: string,
  ): ClientSession | null | Promise<ClientSession | null> {
    if (claim.sessionId === null) {
      sendError(context, 400, 'Mcp-Session-Id is missing: send initialize first', requestId);
      return null;
    }
    const session = this.#deps.sessions.find(claim.sessionId);
    if (session !== undefined) return this.#use(context, session, claim, admitted, requestId);
    return this.#load(context, claim, admitted, requestId);
  }

  async #load(
    context: RequestContext,
    claim: SessionClaim,
    admitted: Admitted,
    requestId: string,
  ): Promise<ClientSession | null> {
    let session: ClientSession | null;
    try {
      session = await this.#deps.sessions.load(claim.sessionId!, admitted.principal, admitted.endpoint);
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      sendFull(context, error, requestId);
      return null;
    }
    return this.#use(context, session, claim, admitted, requestId);
  }

  /** Checks owner and endpoint on every request: knowing a session id gives no right to the session (proto:S1). */
  #use(
    context: RequestContext,
    session: ClientSession | null,
    claim: SessionClaim,
    { principal, endpoint }: Admitted,
    requestId: string,
  ): ClientSession | null {
    if (session === null || !session.persistent || !session.belongsTo(principal, endpoint)) {
      sendError(context, 404, 'Session not found: send initialize to open a new one', requestId);
      return null;
    }
    if (claim.revision !== null && claim.revision !== session.client.revision) {
      const words = `MCP-Protocol-Version is ${claim.revision}, but the session speaks ${session.client.revision}`;
      sendError(context, 400, words, requestId);
      return null;
    }
    session.useAs(principal, this.#deps.clock.turnNow());
    return session;
  }

  async #initialize(context: RequestContext, request: Message, admitted: Admitted): Promise<void> {
    const { core, sessions, wires } = this.#deps;
    // With other nodes, the session continues at one of them.
    if (this.#deps.draining() && this.#deps.others === undefined) {
      return sendError(context, 503, 'The gateway is stopping', request.id, RETRY_SOON);
    }
    const introduction = readInitialize(request);
    if (introduction instanceof GatewayError) {
      return sendMessage(context, 400, failureAnswer(request.id, introduction, 'stateful'));
    }
    const forwarded = this.#deps.endpoints.forwardedOf(admitted.endpoint, context.headers);
    let session: ClientSession;
    try {
      session = sessions.create({ ...admitted, ...introduction, forwarded, persistent: true });
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      return sendFull(context, error, request.id);
    }
    const { client, endpoint } = session;
    wires.tap?.client(client, endpoint, 'client', [request.bytes], null);
    const answer = await initializeAnswer(core, request, endpoint, client);
    wires.tap?.client(client, endpoint, 'gateway', [answer.bytes], null);
    if (answer.kind === 'error') {
      sessions.end(session, 'the server could not be reached');
      return sendMessage(context, 200, answer);
    }
    sendMessage(context, 200, answer, ['mcp-session-id', session.mcpSessionId]);
  }

  #standalone(session: ClientSession): StandaloneStreams {
    this.#deps.onStreamOpened?.(session.id);
    session.channel ??= new StandaloneStreams(session, this.#deps);
    return session.channel as StandaloneStreams;
  }

  /** Serves a stream of this node to a client that reconnected to another node; false if this node has no such stream. */
  resumeFor(sessionId: string, lastEventId: string, open: () => EventSink): Promise<boolean> {
    return this.#resumption.resumeFor(sessionId, lastEventId, open);
  }
}

/** Answers that the limit of sessions is reached, or that the session records cannot be read now. */
function sendFull(context: RequestContext, error: GatewayError, id: string): void {
  const seconds = String(Math.ceil((error.data.retryAfterMs ?? 1_000) / 1_000));
  const status = error.outcome === 'NOT_SENT' ? 503 : 429;
  sendMessage(context, status, failureAnswer(id, error, 'stateful'), ['retry-after', seconds]);
}
