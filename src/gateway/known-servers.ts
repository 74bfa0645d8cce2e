import type { ClientProfile } from '../model/client-profile.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Era } from '../model/message.ts';
import type { Upstreams } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import { DOWN, loginAdvice, PROGRAM_ADVICE, type ServerState, STARTED } from '../model/server-state.ts';

/** The part of `Upstreams` that cannot call a server; only `Dispatch` has more. */
export type KnownServers = Omit<Upstreams, 'call' | 'restart' | 'statuses'>;

/** How long to wait for the first listing of a server. */
const CATALOG_WAIT_MS = 2_000;

/** The known catalog of the server; without one, lists the server first. */
export async function knownOrListed(
  upstreams: KnownServers,
  server: string,
  client: ClientProfile,
): Promise<ServerCatalog | null> {
  return upstreams.knownCatalog(server, client) ?? upstreams.catalog(server, client, CATALOG_WAIT_MS);
}

/**
 * The error for a server that cannot be used now, with the reason of its status. The reason of a server behind an https URL,
 * such as its certificate, is for the operator only (F27).
 */
export function unavailable(upstreams: KnownServers, name: string, client: ClientProfile): GatewayError {
  const status = upstreams.status(name, client);
  if (status?.state === 'auth_required') {
    const own = upstreams.servers().find((server) => server.name === name)?.callerSeparation?.credentials === true;
    const needed = loginAdvice(name, undefined, own ? client.principal.id : null);
    const advice = status.reason?.endsWith(PROGRAM_ADVICE) === true ? PROGRAM_ADVICE : needed;
    return new GatewayError('AUTH_REQUIRED', `Server '${name}' asks for credentials; ${advice}`, { server: name });
  }
  const state = status === null || status.state === 'unknown' ? 'not ready' : status.state;
  const reason = status?.reason == null || status.endpoint?.startsWith('https:') ? '' : `: ${status.reason}`;
  const retryable = !NEEDS_OPERATOR.has(status?.state ?? 'unknown');
  return new GatewayError('NOT_SENT', `Server '${name}' is ${state}${reason}`, { server: name, retryable });
}

export function noServer(name: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', `There is no server '${name}' here`);
}

/** States that a server leaves only when an operator acts. */
const NEEDS_OPERATOR: ReadonlySet<ServerState> = new Set([
  'misconfigured',
  'defect',
  'stopped',
  'disconnected',
  'suspended',
]);

/** States in which requests to the server fail. */
const NOT_SERVING: ReadonlySet<ServerState> = new Set([...DOWN, 'stopped', 'stopping', 'disconnected', 'suspended']);

/** Whether the gateway also sends call parameters to it in headers (2026-07-28, streamable-http §Custom Headers). */
export function mirrors({ transport }: Server, era: Era): boolean {
  return transport.type === 'http' && era === 'stateless';
}

export function isNotServing(upstreams: KnownServers, server: string, client: ClientProfile): boolean {
  const state = upstreams.state(server, client);
  return state !== null && NOT_SERVING.has(state);
}

export function isStarted(upstreams: KnownServers, server: string, client: ClientProfile): boolean {
  const state = upstreams.state(server, client);
  return state !== null && STARTED.has(state);
}
