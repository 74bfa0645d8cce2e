import type { Server } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { AnswerHeads } from './answer-heads.ts';
import { FastPathConnection, type FastPathHost, type FastPathOptions } from './fast-path-connection.ts';

/** Per tick: thousands of connections that were opened at once without a request must not block all others. */
const MAX_HANDED_OVER = 500;
/** A client that relies on the announced keep-alive time must not meet a closed connection; `node:http` adds the same. */
const KEEP_ALIVE_MARGIN_MS = 1_000;

/**
 * Where every connection begins (decision 022). Plain requests are read and answered here; other requests are handed over
 * to `node:http`.
 */
export class FastPath implements FastPathHost {
  readonly heads: AnswerHeads;
  readonly options: FastPathOptions;
  tick = 0;
  readonly #server: Server | TlsServer;
  readonly #httpListeners: readonly ((socket: Socket) => void)[];
  readonly #connections = new Set<FastPathConnection>();
  readonly #idleTicks: number;
  #timer: NodeJS.Timeout | null = null;

  constructor(server: Server | TlsServer, options: FastPathOptions) {
    this.#server = server;
    this.options = options;
    this.heads = new AnswerHeads(options.keepAliveMs, options.maxRequests);
    this.#idleTicks = Math.ceil((options.keepAliveMs + KEEP_ALIVE_MARGIN_MS) / options.tickMs);
    const event = options.encrypted ? 'secureConnection' : 'connection';
    this.#httpListeners = server.listeners(event) as ((socket: Socket) => void)[];
    server.removeAllListeners(event);
    server.on(event, (socket: Socket) => this.#begin(socket));
  }

  handOver(connection: FastPathConnection, bytes: Buffer | null): void {
    this.gone(connection);
    connection.release();
    const { socket } = connection;
    // No data may flow before the listeners of `node:http` are attached.
    socket.pause();
    if (bytes !== null) socket.unshift(bytes);
    for (const listener of this.#httpListeners) listener.call(this.#server, socket);
    socket.resume();
  }

  gone(connection: FastPathConnection): void {
    this.#connections.delete(connection);
    if (this.#connections.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  /** Closes the connections that have been idle for this long, with an answer for a request that is on its way. */
  closeIdle(answer: string, idleMs = 0): void {
    const ticks = Math.ceil(idleMs / this.options.tickMs);
    for (const connection of this.#connections) {
      if (connection.idle && this.tick - connection.since >= ticks) connection.leave(answer);
    }
  }

  closeAll(): void {
    for (const connection of this.#connections) connection.socket.destroy();
  }

  #begin(socket: Socket): void {
    this.#connections.add(new FastPathConnection(socket, this));
    // After the loop has polled all sockets: a request that arrived while this process was stalled is not silence.
    this.#timer ??= setInterval(() => setImmediate(() => this.#turn()), this.options.tickMs).unref();
  }

  #turn(): void {
    this.tick++;
    let most = MAX_HANDED_OVER;
    for (const connection of this.#connections) {
      const ticks = this.tick - connection.since;
      if (ticks < 2) continue;
      if (connection.waiting && most-- > 0) connection.handOver();
      else if (ticks > this.#idleTicks && connection.idle) connection.socket.destroy();
    }
  }
}
