import type { ClientProfile } from './client-profile.ts';
import type { Endpoint, Exchange } from './exchange.ts';

/** Who wrote a message. */
export type WireSide = 'client' | 'gateway' | 'server';

/** What one connection to a server is known by. */
export interface TappedConnection {
  readonly server: string;
  /** Unique among the connections of this process. */
  readonly label: string;
  /** `ClientProfile.sessionId` of the one session it belongs to; null where it is not one session's. */
  readonly sessionId: string | null;
}

/**
 * Port: sees each message on both wires as the bytes that were read or are written. Implemented by the recorder. Neither
 * method blocks or throws, and neither keeps the buffers: their memory is used again.
 */
export interface WireTap {
  /** A message between a client and the gateway; `exchange` is the id of the exchange it belongs to, null for none. */
  client(
    client: ClientProfile,
    endpoint: Endpoint,
    from: 'client' | 'gateway',
    message: readonly Buffer[],
    exchange: string | null,
  ): void;
  /** A message between the gateway and a server; `exchange` null: of the gateway's own, or not known whose. */
  server(
    connection: TappedConnection,
    from: 'gateway' | 'server',
    message: readonly Buffer[],
    exchange: Exchange | null,
  ): void;
}

/** Where both wires look for the tap. `tap` is null while nothing is recorded: a message then costs this comparison. */
export interface Wires {
  tap: WireTap | null;
}
