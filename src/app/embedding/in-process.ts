import { connectionDigest, plainServer } from '../../config/server/plain-server.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { SERVER_NAME_PATTERN } from '../../model/names.ts';
import type { Server } from '../../model/server.ts';
import { outsideServers } from '../../upstream/error-boundary.ts';
import type { MemoryServerFactory } from '../../upstream/transport/memory-transport.ts';
import { ObjectTransport, type SdkTransport } from './object-transport.ts';

/** The settings of a configuration file, with the same defaults. */
export interface InProcessOptions {
  readonly description?: string;
  /** Timeout of a call in milliseconds. Default 60 000. */
  readonly timeoutMs?: number;
  /** Which callers share a connection. By default one per client session, or one for all with a stateless server. */
  readonly isolation?: 'shared' | 'session' | 'principal';
  readonly start?: 'eager' | 'lazy';
  /** Whether the gateway trusts what the server states about its tools. Default false. */
  readonly trusted?: boolean;
  /** Whether the gateway caches answers for as long as the server allows. Default true. */
  readonly cache?: boolean;
}

/** A server in this process. Made by `inProcess` or `inProcessBytes`. */
export class InProcessServer {
  readonly factory: MemoryServerFactory;
  readonly options: InProcessOptions;

  constructor(factory: MemoryServerFactory, options: InProcessOptions) {
    // The server belongs to the program, and so do exceptions in its callbacks.
    this.factory = (link) => {
      const server = outsideServers(() => factory(link));
      return {
        receive: (message) => outsideServers(() => server.receive(message)),
        close: () => outsideServers(() => server.close()),
      };
    };
    this.options = options;
  }
}

/**
 * Returns a server in this process on a transport of the MCP SDK: `inProcess((transport) => makeServer().connect(transport))`.
 * `connect` is called for every connection and must create a new server each time. If it throws or rejects, the server has
 * crashed, and its status shows the reason.
 */
export function inProcess(
  connect: (transport: SdkTransport) => unknown,
  options: InProcessOptions = {},
): InProcessServer {
  return new InProcessServer((link) => {
    const transport = new ObjectTransport({ send: (text) => link.deliver(text), close: () => link.exit() });
    const crashed = (cause: unknown): void => link.exit(cause ?? new Error('connect failed'));
    (async () => connect(transport))().catch(crashed);
    return {
      receive: (message) => transport.deliver(message.toString()),
      close: () => transport.ended(),
    };
  }, options);
}

/**
 * Returns a server in this process that reads and writes messages as bytes, without loss. `factory` is called for every
 * connection with a link back to the gateway, and returns the receiver of the gateway's messages.
 */
export function inProcessBytes(factory: MemoryServerFactory, options: InProcessOptions = {}): InProcessServer {
  return new InProcessServer(factory, options);
}

/** Returns the definition of an in-process server. `key` names its factory. Throws GatewayError INVALID_PARAMS for a bad name. */
export function inProcessDefinition(name: string, key: string, options: InProcessOptions): Server {
  if (!SERVER_NAME_PATTERN.test(name)) {
    throw new GatewayError('INVALID_PARAMS', `${JSON.stringify(name)} cannot be the name of a server`);
  }
  const transport = { type: 'memory', key } as const;
  const isolation = options.isolation ?? null;
  const plain = plainServer(name, transport, { file: '<in process>', line: 1, column: 1 });
  const { maxMessageBytes } = plain.limits;
  return {
    ...plain,
    description: options.description ?? null,
    isolation,
    timeoutMs: options.timeoutMs ?? plain.timeoutMs,
    trusted: options.trusted ?? plain.trusted,
    cache: options.cache ?? plain.cache,
    start: options.start ?? plain.start,
    drift: 'off',
    connectionDigest: connectionDigest({ transport, isolation, isolationHeader: null, maxMessageBytes }),
  };
}
