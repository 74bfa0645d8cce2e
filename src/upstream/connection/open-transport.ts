import type { PhaseTimes } from '../../http/client/phase-times.ts';
import type { Server } from '../../model/server.ts';
import type { Transport } from '../transport/transport.ts';

export interface OpenTransportOptions {
  /**
   * The wire to use. The server's own type, except where a server of type `http` turned out to speak 2024-11-05
   * HTTP+SSE only (basic/transports §Backward Compatibility).
   */
  readonly kind: Transport['kind'];
  /** What the connection is for, for logs: `spare`, `shared`, `session 1f3a…`. */
  readonly label: string;
  /** Where a server behind a URL spends its time; null for others. */
  readonly phases?: PhaseTimes | null;
}

/** Makes a transport that is not open yet; `app/` decides which class. Must not throw. */
export type OpenTransport = (server: Server, options: OpenTransportOptions) => Transport;
