import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import type { ListMethod } from '../../protocol/methods.ts';
import type { Target } from '../target.ts';

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

/** What a name leads to, or why it leads nowhere; a promise only where servers are waited for. */
export type Found<T = Target> = T | GatewayError | Promise<T | GatewayError>;

/** How endpoints of one kind read requests: which server is meant, and what it calls what was named. */
export interface Resolver {
  /** Before anything is looked up. */
  refusal(principal: Principal, endpoint: Endpoint): GatewayError | null;
  handshake(endpoint: Endpoint, client: ClientProfile, waitMs: number): Promise<HandshakeView | GatewayError>;
  named(kind: 'tool' | 'prompt' | 'template', exchange: Exchange, endpoint: Endpoint): Found;
  /** Several where nothing says which one has it: they are asked in this order. `uri`: where the request is about more than one. */
  resource(exchange: Exchange, endpoint: Endpoint, uri?: string): Found<Target | readonly Target[]>;
  list(exchange: Exchange, endpoint: Endpoint, list: ListMethod): Promise<Outcome>;
  setLevel(exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
  /** Methods that the gateway does not know. */
  other(exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
  /** The outcome in the client's names; absent where those are the server's. */
  outward?(outcome: Outcome, target: Pick<Target, 'server' | 'exposed' | 'name'>, exchange: Exchange): Outcome;
}
