import type { Rooms } from '../rooms.ts';
import type { Gateway } from './gateway-api.ts';
import { type AgentClient, GatewayClient } from './gateway-client.ts';
import type { GatewayOptions, ServerDefinition } from './gateway-options.ts';
import { openGateway } from './open-gateway.ts';

export interface ConnectOptions extends Pick<GatewayOptions, 'logger' | 'logLevel' | 'cwd' | 'env'> {
  /** What the server is called in errors and logs. Default `server`. */
  readonly name?: string;
}

/**
 * A client of one server that stands alone (S2.7, S2.9, S4.3, S4.4): it goes on after a crash of the server, over lost
 * sessions and through every revision, as the gateway does. It owns the process, if there is one: close it.
 */
export interface ServerClient extends AgentClient, AsyncDisposable {
  /** URL without credentials; null for local and in-process servers (S2.7). */
  readonly endpoint: string | null;
  /** Asks the server whether it is there (S2.7). Resolves with the milliseconds it took, rejects with GatewayError. */
  ping(): Promise<number>;
  /** Ends the connection: HTTP session deleted, process stopped by the ladder. Resolves when nothing is left. */
  close(): Promise<void>;
}

/**
 * Makes the client; the server is started or connected at once, in the background, and `initialize` waits for it.
 * Rejects with ConfigError for a definition that is none.
 */
export async function connectServer(definition: ServerDefinition, options: ConnectOptions = {}): Promise<ServerClient> {
  const { name = 'server', ...rest } = options;
  const { gateway, rooms } = await openGateway({ ...rest, servers: { [name]: definition }, strict: true });
  return new StandaloneClient(name, gateway, rooms);
}

class StandaloneClient extends GatewayClient implements ServerClient {
  readonly #gateway: Gateway;

  constructor(name: string, gateway: Gateway, rooms: Rooms) {
    super(name, rooms);
    this.#gateway = gateway;
  }

  get endpoint(): string | null {
    return this.#gateway.server(this.name)?.endpoint ?? null;
  }

  close(): Promise<void> {
    return this.#gateway.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
