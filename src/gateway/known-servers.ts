import type { ClientProfile } from '../model/client-profile.ts';
import { GatewayError } from '../model/gateway-error.ts';
import type { Era } from '../model/message.ts';
import type { Upstreams } from '../model/ports.ts';
import type { Server } from '../model/server.ts';
import type { ServerCatalog } from '../model/server-catalog.ts';
import { loginAdvice, PROGRAM_ADVICE, type ServerState, STARTED } from '../model/server-state.ts';

/** What is known of servers. All of the gateway but `Dispatch` has this part of the port: it cannot call a server. */
export type KnownServers = Omit<Upstreams, 'call' | 'restart' | 'statuses'>;

/** How long a server of which nothing is known is waited for. */
const CATALOG_WAIT_MS = 2_000;

/** What is known of the server, which is listed first where that is nothing. */
export async function knownSoon(
  upstreams: KnownServers,
  server: string,
  client: ClientProfile,
): Promise<ServerCatalog | null> {
  return upstreams.knownCatalog(server, client) ?? upstreams.catalog(server, client, CATALOG_WAIT_MS);
}

/**
 * Why nothing can be said for a server right now, in the words of its status; but what is wrong
 * behind an https URL, its certificates above all, is for the operator only (F27).
 */
export function unavailable(upstreams: KnownServers, name: string, client: ClientProfile): GatewayError {
  const status = upstreams.status(name, client);
  if (status?.state === 'auth_required') {
    const own = upstreams.servers().find((server) => server.name === name)?.apart?.credentials === true;
    const needed = loginAdvice(name, undefined, own ? client.principal.id : null);
    const advice = status.reason?.endsWith(PROGRAM_ADVICE) === true ? PROGRAM_ADVICE : needed;
    return new GatewayError('AUTH_REQUIRED', `Server '${name}' asks for credentials; ${advice}`, { server: name });
  }
  const state = status === null || status.state === 'unknown' ? 'not ready' : status.state;
  const reason = status?.reason == null || status.endpoint?.startsWith('https:') ? '' : `: ${status.reason}`;
  const retryable = state !== 'misconfigured';
  return new GatewayError('NOT_SENT', `Server '${name}' is ${state}${reason}`, { server: name, retryable });
}

export function noServer(name: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', `There is no server '${name}' here`);
}

/** States in which asking is known to be in vain. */
const DOWN: ReadonlySet<ServerState> = new Set([
  'stopped',
  'stopping',
  'disconnected',
  'failed',
  'unreachable',
  'auth_required',
  'misconfigured',
  'defect',
  'suspended',
]);

/** Whether the gateway sends parameters of calls to it in headers as well (2026-07-28, streamable-http §Custom Headers). */
export function mirrors({ transport }: Server, era: Era): boolean {
  return transport.type === 'http' && era === 'stateless';
}

export function isDown(upstreams: KnownServers, server: string, client: ClientProfile): boolean {
  const state = upstreams.state(server, client);
  return state !== null && DOWN.has(state);
}

export function isStarted(upstreams: KnownServers, server: string, client: ClientProfile): boolean {
  const state = upstreams.state(server, client);
  return state !== null && STARTED.has(state);
}
