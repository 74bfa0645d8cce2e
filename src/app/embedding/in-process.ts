import { connectionDigest, plainServer } from '../../config/server/plain-server.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { SERVER_NAME_PATTERN } from '../../model/names.ts';
import type { Server } from '../../model/server.ts';
import { outsideServers } from '../../upstream/error-boundary.ts';
import type { MemoryServerFactory } from '../../upstream/transport/memory-transport.ts';
import { ObjectTransport, type SdkTransport } from './object-transport.ts';

/** As in a configuration file; what is left out has the same defaults. */
export interface InProcessOptions {
  readonly description?: string;
  /** Deadline of a call. Default 60 000. */
  readonly timeoutMs?: number;
  /** Whose connection a call may use. By default one per client session. */
  readonly isolation?: 'shared' | 'session' | 'principal';
  readonly start?: 'eager' | 'lazy';
  /** What the server says of its tools is believed. Default false. */
  readonly trusted?: boolean;
  /** Its answers are kept for as long as it says. Default true. */
  readonly cache?: boolean;
}

/** A server that lives in this process. Made by `inProcess` or `inProcessBytes`. */
export class InProcessServer {
  readonly factory: MemoryServerFactory;
  readonly options: InProcessOptions;

  constructor(factory: MemoryServerFactory, options: InProcessOptions) {
    // The server is the program's: what it throws in callbacks of its own is the program's too.
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
 * A server in this process over a transport as the MCP SDK has them: `inProcess((transport) => makeServer().connect(transport))`.
 * `connect` is called for every connection and has to make a server of its own each time. If it throws or rejects, the
 * server has crashed, and its status says why.
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
 * A server in this process that reads and writes messages as bytes, without loss. `factory` is called for every
 * connection with a link back to the gateway, and returns what takes the gateway's messages.
 */
export function inProcessBytes(factory: MemoryServerFactory, options: InProcessOptions = {}): InProcessServer {
  return new InProcessServer(factory, options);
}

/** The definition of an in-process server. `key` names its factory. Throws GatewayError INVALID_PARAMS for a bad name. */
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
