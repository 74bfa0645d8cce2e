import type { HandshakeResult } from '../model/server-catalog.ts';

/**
 * What an endpoint says of itself, for the edge to make an `initialize` or `server/discover` result of. The texts
 * are JSON.
 */
export interface HandshakeView {
  /** An `Implementation` object: the gateway's on the aggregate, the server's own on a server's endpoint. */
  readonly serverInfo: string;
  /** The capabilities, in the vocabulary of the client's era on the aggregate, as written by a single server. */
  readonly capabilities: string;
  /** Decoded text; null for none. */
  readonly instructions: string | null;
  /** On a server's endpoint its own hello, so that everything in it passes, known or not; null on the aggregate. */
  readonly handshake: HandshakeResult | null;
  /** Cache hints for `server/discover`. */
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
}
