import { GatewayError } from './gateway-error.ts';

/** What a further process of a server would take: nothing, the end of one that is idle, or all are in use. */
export type Room = 'free' | 'idle' | 'none';

/** What a caller is told to wait before it tries again. */
const RETRY_AFTER_MS = 1_000;

/** No process more may be started for the call at this node, by the operator's limits. It says nothing of the server. */
export class NoRoom extends GatewayError {
  constructor(server: string, message: string) {
    super('OVERLOADED', message, { server, retryAfterMs: RETRY_AFTER_MS });
  }
}
