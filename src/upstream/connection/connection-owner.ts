import type { Message } from '../../model/message.ts';
import type { ClosedReason } from '../transport/transport.ts';

/** Whom a connection (`C`) tells what concerns no request in flight. Handlers neither block nor throw. */
export interface ConnectionOwner<C> {
  /** It ended without being told to. What was in flight has been told before. */
  closed(connection: C, reason: ClosedReason): void;
  /** A notification that belongs to no call in flight. */
  notified(connection: C, message: Message): void;
  /** A list or a resource of the server is not what it was, whoever is told so. */
  outdated(connection: C, message: Message): void;
  /** One of the server's lists has changed. */
  listChanged(connection: C, message: Message): void;
  /** The server's own stream was down: what it would have told is unknown. */
  missed(connection: C): void;
  /** A stateful server's own request outside any call. Resolves with the answer; may reject with GatewayError. */
  asked(connection: C, request: Message): Promise<Message>;
  /** Several calls in a row ran into their deadline (F05). */
  unresponsive(connection: C): void;
}
