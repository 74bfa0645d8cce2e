import type { Clock } from '../../model/clock.ts';
import type { Exchange } from '../../model/exchange.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Server } from '../../model/server.ts';
import type { Guards } from '../drift/guards.ts';
import type { KnownServers } from '../known-servers.ts';
import type { Target } from '../target.ts';

/** The policy needs the server's catalog: it is evaluated again after the server was listed. */
export const UNDECIDED = Symbol('undecided');

/**
 * One check of a target before dispatch: null admits it. Called for each call, so it must not allocate unless it refuses.
 * `exchange` is the call.
 */
export type Policy = (target: Target, exchange: Exchange) => GatewayError | typeof UNDECIDED | null;

/** A policy that depends only on the named item: lists evaluate it too, without a catalog. */
export type OfferPolicy = (item: Pick<Target, 'kind' | 'name'> & Partial<Target>) => GatewayError | null;

export interface PolicyContext {
  readonly upstreams: KnownServers;
  readonly clock: Clock;
  readonly guards: Guards;
}

/** Makes the policy of one server when its definition is applied; null if it does not apply to the server. */
export type PolicyFactory<P = Policy> = (server: Server, context: PolicyContext) => P | null;
