import type { ClientProfile, Principal } from '../../model/client-profile.ts';
import type { Endpoint, Exchange } from '../../model/exchange.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { HandshakeResult } from '../../model/server-catalog.ts';
import type { ListMethod } from '../../protocol/methods.ts';
import type { Target } from '../target.ts';

/** The content of an endpoint's `initialize` or `server/discover` result, for the edge. The texts are JSON. */
export interface HandshakeView {
  /** An `Implementation` object: the gateway's on the aggregate, the server's own on a server's endpoint. */
  readonly serverInfo: string;
  /** The capabilities: on the aggregate in the format of the client's era, on a server's endpoint as the server wrote them. */
  readonly capabilities: string;
  /** Decoded text; null for none. */
  readonly instructions: string | null;
  /** The server's own handshake on its endpoint, so that unknown members pass too; null on the aggregate. */
  readonly handshake: HandshakeResult | null;
  /** Cache hints for `server/discover`. */
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
}

/** The target of a name, or why there is none; a promise only if the resolver waits for servers. */
export type Found<T = Target> = T | GatewayError | Promise<T | GatewayError>;

/** Resolves the requests at one kind of endpoint: to which server, and under which own name. */
export interface Resolver {
  /** The access check, before any look-up. */
  refusal(principal: Principal, endpoint: Endpoint): GatewayError | null;
  handshake(endpoint: Endpoint, client: ClientProfile, waitMs: number): Promise<HandshakeView | GatewayError>;
  named(kind: 'tool' | 'prompt' | 'template', exchange: Exchange, endpoint: Endpoint): Found;
  /** Several targets if any may have it: they are asked in this order. `uri`: for a request that names several. */
  resource(exchange: Exchange, endpoint: Endpoint, uri?: string): Found<Target | readonly Target[]>;
  list(exchange: Exchange, endpoint: Endpoint, list: ListMethod): Promise<Outcome>;
  setLevel(exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
  /** Methods that the gateway does not know. */
  other(exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
  /** The outcome with the client's names; absent if these are the server's. */
  outward?(outcome: Outcome, target: Pick<Target, 'server' | 'exposed' | 'name'>, exchange: Exchange): Outcome;
}
