import type { ClientProfile } from './client-profile.ts';
import type { Endpoint, Exchange } from './exchange.ts';

/** The author of a message. */
export type WireSide = 'client' | 'gateway' | 'server';

/** Identifies a connection to a server. */
export interface TappedConnection {
  readonly server: string;
  /** Unique among the connections of this process. */
  readonly label: string;
  /** `ClientProfile.sessionId` of the only session that uses it; null if it is not limited to one session. */
  readonly sessionId: string | null;
}

/**
 * Port: receives each message on both wires as the bytes that were read or will be written. Implemented by the recorder.
 * Neither method blocks, throws or keeps the buffers, whose memory is reused.
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
  /** A message between the gateway and a server; `exchange` null: the gateway's own, or of an unknown call. */
  server(
    connection: TappedConnection,
    from: 'gateway' | 'server',
    message: readonly Buffer[],
    exchange: Exchange | null,
  ): void;
}

/** Holds the tap for both wires. `tap` is null while nothing is recorded: a message then costs only this comparison. */
export interface Wires {
  tap: WireTap | null;
}
