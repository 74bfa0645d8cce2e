import { readDefinition } from '../app/embedding/definitions.ts';
import type { GatewayOptions, ServerDefinition } from '../app/embedding/gateway-options.ts';
import { InProcessServer, inProcessDefinition } from '../app/embedding/in-process.ts';
import { LogOutlet } from '../app/embedding/log-outlet.ts';
import type { CallOptions } from '../app/embedding/operator-calls.ts';
import { ServerError } from '../app/embedding/server-error.ts';
import { transports } from '../app/transports.ts';
import { ANONYMOUS } from '../model/client-profile.ts';
import { LONGEST_TIMER_MS, systemClock } from '../model/clock.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { systemRandom } from '../model/random.ts';
import type { Server } from '../model/server.ts';
import { bodyString } from '../protocol/body.ts';
import { notification, request, result } from '../protocol/compose.ts';
import type { Logger } from '../telemetry/logger.ts';
import { Connection } from '../upstream/connection/connection.ts';
import type { ConnectionOwner } from '../upstream/connection/server-messages.ts';
import { placeholderClient } from '../upstream/connection/session-key.ts';
import { Reaper } from '../upstream/process/reaper.ts';
import type { ClosedReason, Transport } from '../upstream/transport/transport.ts';

export interface ChannelOptions extends Pick<GatewayOptions, 'logger' | 'logLevel' | 'cwd' | 'env'> {
  /** The server's name in errors and logs. Default `server`. */
  readonly name?: string;
  /** Called for each notification of the server. `params` is JSON text, empty without params. */
  readonly onNotification?: (method: string, params: string) => void;
}

/**
 * A raw channel to one server, over any transport (S4.2). The caller composes requests and notifications, makes the handshake
 * and reconnects. For everything else use `connectServer`.
 */
export interface ServerChannel extends AsyncDisposable {
  /**
   * Sends a request of the stateful revisions and resolves with its result as JSON text, with all digits. `params` is an object
   * or JSON text. Rejects with the reason of a `signal` that is already aborted; with GatewayError CANCELLED on `signal` and
   * TIMEOUT after `timeoutMs` (default 60 000), both with a cancellation to the server; with NOT_SENT or UNKNOWN if the
   * connection is lost; and with ServerError.
   */
  send(method: string, params?: object | string, options?: Omit<CallOptions, 'onProgress'>): Promise<string>;
  /** Sends a notification. A lost notification is not reported. */
  notify(method: string, params?: object | string): void;
  /** Resolves with the reason if the channel ended by itself, or with null if `close` ended it. Never rejects. */
  readonly done: Promise<ClosedReason | null>;
  /** Closes the channel and ends the process. Requests in flight reject with UNKNOWN. Idempotent. */
  close(): Promise<void>;
}

/** Opens a channel. Rejects with ConfigError, or with GatewayError NOT_SENT if it cannot connect. */
export async function openChannel(definition: ServerDefinition, options: ChannelOptions = {}): Promise<ServerChannel> {
  const { name = 'server', cwd = process.cwd(), env = process.env } = options;
  const { logger } = new LogOutlet(options.logger ?? null, options.logLevel ?? 'info');
  const memory = definition instanceof InProcessServer;
  let server: Server;
  if (memory) server = inProcessDefinition(name, name, definition.options);
  else {
    const read = await readDefinition(name, definition, '<openChannel>', { cwd, env });
    for (const secret of read.secrets) logger.addSecret(secret);
    server = read.server;
  }
  const guard = new Reaper({ logger });
  const open = transports({
    clock: systemClock,
    random: systemRandom,
    logger,
    guard,
    env,
    owner: systemRandom.hex(8),
    memoryServers: new Map(memory ? [[name, definition.factory]] : []),
  });
  const transport = open(server, { kind: server.transport.type, label: 'channel' });
  const channel = new ConnectionChannel(server, options, guard, logger, transport);
  await channel.open();
  return channel;
}

const DEFAULT_TIMEOUT_MS = 60_000;

class ConnectionChannel implements ServerChannel, ConnectionOwner<Connection> {
  readonly #ended = Promise.withResolvers<ClosedReason | null>();
  readonly done = this.#ended.promise;
  readonly #server: Server;
  readonly #options: ChannelOptions;
  readonly #guard: Reaper;
  readonly #logger: Logger;
  readonly #connection: Connection;

  constructor(server: Server, options: ChannelOptions, guard: Reaper, logger: Logger, transport: Transport) {
    this.#server = server;
    this.#options = options;
    this.#guard = guard;
    this.#logger = logger;
    this.#connection = new Connection(transport, {
      server: server.name,
      profile: placeholderClient(null),
      clock: systemClock,
      random: systemRandom,
      owner: this,
    });
    this.#connection.adopt({ kind: 'principal', principal: ANONYMOUS.name, handle: '' }, ANONYMOUS.id);
  }

  async open(): Promise<void> {
    try {
      await this.#connection.open();
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async send(
    method: string,
    params?: object | string,
    { signal, timeoutMs = DEFAULT_TIMEOUT_MS }: Omit<CallOptions, 'onProgress'> = {},
  ): Promise<string> {
    signal?.throwIfAborted();
    const { name } = this.#server;
    const { id, pending } = this.#connection.post(request(method, '0', jsonText(params), 'stateful'));
    const withdraw = (code: 'TIMEOUT' | 'CANCELLED', text: string): void => {
      this.#connection.withdraw(id, code === 'TIMEOUT' ? 'timeout' : 'cancelled', text);
      pending.lost(new GatewayError(code, text, { server: name }));
    };
    const abort = (): void => withdraw('CANCELLED', 'the caller cancelled the request');
    const timer = setTimeout(
      () => {
        withdraw('TIMEOUT', `${name} did not answer ${method} within ${timeoutMs} ms`);
      },
      Math.min(timeoutMs, LONGEST_TIMER_MS),
    );
    signal?.addEventListener('abort', abort, { once: true });
    try {
      const message = await pending.answer;
      const body = message.body.toString();
      if (message.kind === 'error') throw new ServerError(body);
      if (method === 'initialize') {
        const revision = bodyString(message, 'protocolVersion') ?? '';
        this.#connection.transport.negotiated({ era: 'stateful', revision });
      }
      return body;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  notify(method: string, params?: object | string): void {
    this.#connection.notify(notification(method, jsonText(params), 'stateful'));
  }

  async close(): Promise<void> {
    await this.#connection.close('remove');
    await this.#guard.close();
    this.#ended.resolve(null);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  closed(_connection: Connection, reason: ClosedReason): void {
    this.#ended.resolve(reason);
  }

  notified(_connection: Connection, message: { readonly method: string; readonly body: Buffer }): void {
    const { onNotification } = this.#options;
    const params = message.body.toString();
    if (onNotification !== undefined) queueMicrotask(() => onNotification(message.method, params));
  }

  outdated(): void {}

  listChanged(connection: Connection, message: { readonly method: string; readonly body: Buffer }): void {
    this.notified(connection, message);
  }

  missed(): void {}

  /** Answers pings. Refuses other requests, because no client can answer them. */
  async asked(_connection: Connection, message: { readonly id: string; readonly method: string }) {
    if (message.method === 'ping') return result(message.id, '{}', 'stateful');
    throw new GatewayError('METHOD_NOT_FOUND', `Method not found: ${message.method}`);
  }

  unresponsive(): void {}

  dropped(reason: string): void {
    this.#logger.debug('dropped', { reason });
  }

  tool(): null {
    return null;
  }
}

function jsonText(params: object | string | undefined): string | null {
  if (params === undefined) return null;
  return typeof params === 'string' ? params : JSON.stringify(params);
}
