import { GatewayError } from '../model/gateway-error.ts';
import type { Server } from '../model/server.ts';
import { LOGIN_ADVICE, type ServerState, STARTED } from '../model/server-state.ts';
import type { KnownServers } from './dispatch/dispatch.ts';

/** Desired servers by name, read anew whenever the set was replaced. */
export class ServerIndex {
  readonly #upstreams: KnownServers;
  #servers: readonly Server[] | null = null;
  #byName = new Map<string, Server>();

  constructor(upstreams: KnownServers) {
    this.#upstreams = upstreams;
  }

  /** null for a server that is not there or not enabled. */
  get(name: string): Server | null {
    const servers = this.#upstreams.servers();
    if (servers !== this.#servers) {
      this.#servers = servers;
      this.#byName = new Map(servers.filter((server) => server.enabled).map((server) => [server.name, server]));
    }
    return this.#byName.get(name) ?? null;
  }

  /**
   * Why nothing can be said for a server right now, in the words of its status; but what is wrong
   * behind an https URL, its certificates above all, is for the operator only (F27).
   */
  unavailable(name: string): GatewayError {
    const status = this.#upstreams.status(name);
    if (status?.state === 'auth_required') {
      return new GatewayError('AUTH_REQUIRED', `Server '${name}' asks for credentials; ${LOGIN_ADVICE}`, {
        server: name,
      });
    }
    const state = status === null || status.state === 'unknown' ? 'not ready' : status.state;
    const reason = status?.reason == null || status.endpoint?.startsWith('https:') ? '' : `: ${status.reason}`;
    const retryable = state !== 'misconfigured';
    return new GatewayError('NOT_SENT', `Server '${name}' is ${state}${reason}`, { server: name, retryable });
  }
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

export function isDown(upstreams: KnownServers, server: string): boolean {
  const status = upstreams.status(server);
  return status !== null && DOWN.has(status.state);
}

export function isStarted(upstreams: KnownServers, server: string): boolean {
  const status = upstreams.status(server);
  return status !== null && STARTED.has(status.state);
}
