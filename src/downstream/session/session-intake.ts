import type { Core } from '../../gateway/gateway.ts';
import { type Exchange, serverEndpoint } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { answer, failure, type Outcome } from '../../model/outcome.ts';
import type { Wires } from '../../model/wire-tap.ts';
import { bodyLexeme, cancellationReason, progressToken } from '../../protocol/body.ts';
import { result } from '../../protocol/compose.ts';
import { isLogLevel } from '../../protocol/meta-keys.ts';
import { spliceMessage } from '../../protocol/splice.ts';
import { ClientExchange, type Reply } from './client-exchange.ts';
import type { ClientSession } from './client-session.ts';
import type { AnswerStatus } from './pending-asks.ts';
import type { SessionTable } from './session-table.ts';

/** Forwards a client's message to the nodes that may have what it refers to. */
export type SessionRelay = (sessionId: string, message: Message) => void;

/** Requests that one session may have in flight. */
export const MAX_IN_FLIGHT = 256;

/**
 * Takes the messages of stateful sessions from any wire: requests become exchanges, answers end the asks they belong to,
 * and a cancellation finds its call.
 */
export class SessionIntake {
  readonly #core: Core;
  readonly #sessions: SessionTable;
  readonly #wires: Wires;
  readonly #relay: SessionRelay | null;

  /** `relay`: forwards messages that refer to nothing here to other nodes. */
  constructor(core: Core, sessions: SessionTable, wires: Wires, relay: SessionRelay | null = null) {
    this.#core = core;
    this.#sessions = sessions;
    this.#wires = wires;
    this.#relay = relay;
  }

  /** Whether the session has reached its limit of requests in flight. */
  full(session: ClientSession): boolean {
    return session.exchanges.size >= MAX_IN_FLIGHT;
  }

  request(session: ClientSession, request: Message, reply: Reply): void {
    const known = request.method === 'logging/setLevel' ? this.#setLevel(session, request) : null;
    const exchange = new ClientExchange(request, session.client, reply);
    this.#tapped(session, request, exchange);
    session.exchanges.add(exchange);
    const own = this.#answerLocally(request);
    if (own !== null) exchange.finish(own);
    else {
      const run = (): Promise<Outcome> => this.#core.run(exchange as Exchange, session.endpoint);
      // The session may have ended while other nodes took the level.
      const later = () => (session.ended ? failure(new GatewayError('CANCELLED', 'the session has ended')) : run());
      void settle(exchange, known === null ? run() : known.then(later));
    }
  }

  notification(session: ClientSession, notification: Message): void {
    this.#tapped(session, notification, null);
    switch (notification.method) {
      case 'notifications/initialized':
        if (session.initialized) return;
        session.initialized = true;
        this.#sessions.save(session);
        return;
      case 'notifications/cancelled':
      case 'notifications/progress':
        if (!this.findLocal(session, notification) && session.persistent) this.#relay?.(session.id, notification);
        return;
      default:
        this.#core.notify(session.endpoint, notification, session.client);
    }
  }

  /** The client's answer to a request of the gateway. */
  answer(session: ClientSession, message: Message): AnswerStatus {
    this.#tapped(session, message, null);
    const status = this.answerLocal(session, message);
    if (status !== 'unknown' || this.#relay === null || !session.persistent) return status;
    this.#relay(session.id, message);
    return 'taken';
  }

  /** As `answer`, for requests of this node only. */
  answerLocal(session: ClientSession, message: Message): AnswerStatus {
    return session.openAsks?.take(message) ?? 'unknown';
  }

  /** Gives the notification to the call or the ask that it names; false if neither is open here. */
  findLocal(session: ClientSession, notification: Message): boolean {
    if (notification.method === 'notifications/progress') return this.#progress(session, notification);
    const id = bodyLexeme(notification, 'requestId');
    const exchange = id === null ? undefined : session.exchanges.find(id);
    if (exchange === undefined || exchange === null) return false;
    // `initialize` must not be cancelled (2025-11-25 utilities/cancellation).
    if (exchange.request.method !== 'initialize') exchange.cancel(cancellationReason(notification));
    return true;
  }

  /** The client reports progress of a server's request: only that server gets the report, with its own token. */
  #progress({ openAsks, endpoint, client }: ClientSession, notification: Message): boolean {
    const token = progressToken(notification);
    const asked =
      token === null ? null : openAsks?.nameOf(notification.bytes.toString('latin1', token.start, token.end));
    if (token === null || !asked) return false;
    const restored = spliceMessage(notification, [{ ...token, insert: Buffer.from(asked.token, 'latin1') }]);
    const its = endpoint.kind === 'server' ? endpoint : serverEndpoint(asked.server);
    if (asked.token !== '') this.#core.notify(its, restored, client);
    return true;
  }

  /**
   * The request runs once other nodes know the level, because the session's next request may go to one of them. The session
   * keeps the level across restarts of its servers and of this process.
   */
  #setLevel(session: ClientSession, request: Message): Promise<void> | null {
    const level = bodyLexeme(request, 'level')?.slice(1, -1) ?? null;
    if (!isLogLevel(level)) return null;
    session.logLevel = level;
    return this.#sessions.saveEverywhere(session);
  }

  #tapped({ client, endpoint }: ClientSession, { bytes }: Message, exchange: ClientExchange | null): void {
    this.#wires.tap?.client(client, endpoint, 'client', [bytes], exchange?.id ?? null);
  }

  /** Answers what needs no server: a ping, and a repeated `initialize`, which fails. */
  #answerLocally(request: Message): Outcome | null {
    switch (request.method) {
      case 'ping':
        return answer(result(request.id, '{}', 'stateful'));
      case 'initialize':
        return failure(new GatewayError('INVALID_REQUEST', 'the session is initialized already'));
      default:
        return null;
    }
  }
}

/** Ends the exchange with its outcome. */
export async function settle(exchange: ClientExchange, running: Promise<Outcome>): Promise<void> {
  exchange.finish(await running);
}
