import type { Components } from '../components.ts';
import type { Gateway } from './gateway-api.ts';
import { type AgentClient, GatewayClient } from './gateway-client.ts';
import type { GatewayOptions, ServerDefinition } from './gateway-options.ts';
import { openGateway } from './open-gateway.ts';

export interface ConnectOptions extends Pick<GatewayOptions, 'logger' | 'logLevel' | 'cwd' | 'env'> {
  /** Name of the server in errors and logs. Default `server`. */
  readonly name?: string;
}

/**
 * A standalone client of one server (S2.7, S2.9, S4.3, S4.4). Like the gateway, it recovers from crashes and lost sessions and
 * speaks every revision. It owns the server's process, if there is one: close it.
 */
export interface ServerClient extends AgentClient, AsyncDisposable {
  /** URL without credentials; null for local and in-process servers (S2.7). */
  readonly endpoint: string | null;
  /** Pings the server (S2.7). Resolves with the milliseconds it took; rejects with GatewayError. */
  ping(): Promise<number>;
  /** Ends the connection: deletes the HTTP session, and stops the process. Resolves when it has ended. */
  close(): Promise<void>;
}

/**
 * Returns the client, and starts or connects the server in the background; `initialize` waits for it. Rejects with
 * ConfigError for an invalid definition.
 */
export async function connectServer(definition: ServerDefinition, options: ConnectOptions = {}): Promise<ServerClient> {
  const { name = 'server', ...rest } = options;
  const { gateway, components } = await openGateway({ ...rest, servers: { [name]: definition }, strict: true });
  return new StandaloneClient(name, gateway, components);
}

class StandaloneClient extends GatewayClient implements ServerClient {
  readonly #gateway: Gateway;

  constructor(name: string, gateway: Gateway, components: Components) {
    super(name, components);
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
