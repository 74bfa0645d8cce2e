import type { Gateway } from '../gateway/gateway.ts';

/** What this room needs of the gateway's core. */
export type Core = Pick<Gateway, 'run' | 'handshake' | 'notify' | 'sessionEnded'>;
