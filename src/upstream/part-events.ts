import type { ClientProfile } from '../model/client-profile.ts';
import type { GatewayError } from '../model/gateway-error.ts';
import type { Era } from '../model/message.ts';
import type { StateLoss } from '../model/ports.ts';
import type { InvalidItem, ListKind } from '../model/server-catalog.ts';
import type { RecoveryStep } from '../model/server-state.ts';
import type { Connection } from './connection/connection.ts';
import type { WantedConnection } from './connection/session-key.ts';
import type { Swept } from './pool/slot.ts';
import type { CloseReason } from './transport/transport.ts';

/** What the parts of one server's running side tell of it. Implemented by `ConnectionEvents`. Handlers do not throw. */
export interface PartEvents {
  /** A connection has got its owner. */
  adopted(connection: Connection, want: WantedConnection): void;
  /** The pool closed a connection whose owner may want another. */
  swept(swept: Swept): void;
  /** The connection under this key has ended, and its owner did not ask for that. */
  ended(key: string): void;
  /** What the server kept for a client session is lost. */
  sessionLost(sessionId: string, cause: StateLoss): void;
  /** The stream on which the server tells of changes was broken and is open again. */
  missed(connection: Connection): void;
  /** Ends a connection that is of no use any more, as if it had ended by itself. */
  replace(connection: Connection, error: GatewayError, how: CloseReason): void;
  /** What is observed of the server has changed. */
  changed(): void;
  /** A restart that was asked for begins or ends (S3.10); `reason` says why it failed. */
  recovery(step: RecoveryStep, reason: string | null): void;
  /** A connection to list the server over, once it is up. Rejects with GatewayError. */
  listingConnection(profile: ClientProfile, era: Era): Promise<Connection>;
  /**
   * A list was read; `lists` are those that differ from what was known before. `key`: only the clients of this connection
   * see them; null for all of this kind that have no process.
   */
  listed(fingerprint: string, lists: readonly ListKind[], key: string | null): void;
  /** An item of the server is left out of its lists. */
  itemInvalid(item: InvalidItem): void;
}
