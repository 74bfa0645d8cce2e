import { missing } from '../../gateway/open-questions.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { Wires } from '../../model/wire-tap.ts';
import { bodyField, progressToken } from '../../protocol/body.ts';
import { declares } from '../../protocol/client-capabilities.ts';
import { cancellation } from '../../protocol/compose.ts';
import { splice, spliceMessage, withId } from '../../protocol/splice.ts';
import { notificationFor } from './answer-parts.ts';
import type { ClientExchange } from './client-exchange.ts';
import type { ClientSession } from './client-session.ts';

/** Dependencies of `askClient`. */
export interface AskDeps {
  readonly clock: Clock;
  /** Part of the ids of asks; new with every process. */
  readonly prefix: string;
  readonly wires: Wires;
}

/** Open asks of one client. */
const MAX_OPEN_ASKS = 256;

/**
 * Sends a server's request to the session's client under an id of the gateway and waits for the answer. `owner`: the
 * exchange it belongs to, null for none; `server`: whose request it is, if several servers can ask outside of calls.
 * Rejects what the client did not declare.
 */
export function askClient(
  session: ClientSession,
  owner: { readonly exchange: ClientExchange; readonly likely: boolean } | null,
  request: Message,
  { clock, prefix, wires }: AskDeps,
  send: (message: Buffer) => void,
  server = '',
): Promise<Message> {
  if (session.ended) return Promise.reject(new GatewayError('CANCELLED', 'the session of the client has ended'));
  if (!declares(session.client.capabilities, request)) return Promise.reject(missing(request.method));
  const asks = session.asks(prefix, clock);
  if (asks.size >= MAX_OPEN_ASKS) {
    return Promise.reject(new GatewayError('OVERLOADED', 'too many requests wait for an answer of the client'));
  }
  const expired = (late: string): void =>
    session.channel?.sendCancellation(cancellation(late, 'it was not answered in time', 'stateful').bytes);
  const range = progressToken(request);
  const token = range === null ? '' : request.bytes.toString('latin1', range.start, range.end);
  const its = server === '' ? (owner?.exchange.target?.server ?? '') : server;
  const { id, answer } = asks.open(owner, { server: its, id: request.id, token }, expired);
  // Servers choose equal tokens; the client must get different ones (2025-11-25 utilities/progress).
  const parts = withId(range === null ? request : spliceMessage(request, [{ ...range, insert: id }]), id);
  wires.tap?.client(session.client, session.endpoint, 'gateway', parts, owner?.exchange.id ?? null);
  send(parts.length === 1 ? parts[0]! : Buffer.concat(parts));
  return answer;
}

/**
 * The server cancels one of its requests: ends the ask and returns the notification with the id that the client knows; null
 * if no such ask is open.
 */
function cancelAsk(
  session: ClientSession,
  exchange: ClientExchange | null,
  cancelled: Message,
  server = '',
): Buffer | null {
  if (session.openAsks === null) return null;
  const range = bodyField(cancelled, 'requestId');
  if (range === null) return null;
  const serverId = cancelled.bytes.toString('latin1', range.start, range.end);
  const id = session.openAsks.cancel(exchange, { server, id: serverId });
  return id === null ? null : splice(cancelled.bytes, [{ ...range, insert: id }]);
}

/** The notification in the client's vocabulary, or the cancellation of an ask; null if there is nothing to send. */
export function notificationTo(
  session: ClientSession,
  exchange: ClientExchange | null,
  notification: Message,
  { tap }: Wires,
  server?: string,
): Buffer | null {
  const bytes =
    notification.method === 'notifications/cancelled'
      ? cancelAsk(session, exchange, notification, server)
      : notificationFor('stateful', notification, session.client);
  if (tap !== null && bytes !== null) {
    tap.client(session.client, session.endpoint, 'gateway', [bytes], exchange?.id ?? null);
  }
  return bytes;
}

/**
 * Ends the asks of a call that has ended and returns their cancellations for the client. Asks that only likely belong to
 * the call stay open without it, unless the client cancelled the call.
 */
export function abandonAsks(session: ClientSession, exchange: ClientExchange): Buffer[] {
  const asks = session.openAsks;
  if (asks === null || asks.size === 0) return [];
  if (exchange.cancelled === null) asks.release(exchange);
  const ids = asks.abandon(exchange, new GatewayError('CANCELLED', 'the call this request belongs to is over'));
  return ids.map((id) => cancellation(id, 'the call is over', 'stateful').bytes);
}
