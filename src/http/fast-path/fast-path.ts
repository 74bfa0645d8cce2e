import type { Server } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { BodyBudget } from '../context/body-budget.ts';
import { AnswerHeads } from './answer-heads.ts';
import { FastPathConnection, type FastPathTraffic } from './fast-path-connection.ts';
import type { FastPathContext } from './fast-path-context.ts';

export interface FastPathOptions {
  readonly encrypted: boolean;
  /** What is not a whole request for one to two of these goes to `node:http`, which has the deadlines for it. */
  readonly tickMs: number;
  readonly keepAliveMs: number;
  readonly maxRequests: number;
  readonly bodies: BodyBudget;
  readonly serve: (http: FastPathContext) => void;
  readonly onMalformed: () => void;
}

/** In one turn: thousands that were opened at once and say nothing are not to hold up everybody else. */
const MAX_HANDED_OVER = 500;
/** A client that trusts the announced keep-alive time must not meet a closed connection; `node:http` adds the same. */
const KEEP_ALIVE_MARGIN_MS = 1_000;

/**
 * Where every connection begins (decision 022). Plain requests are read and answered here; the rest is handed to
 * `node:http`.
 */
export class FastPath implements FastPathTraffic {
  readonly heads: AnswerHeads;
  readonly maxRequests: number;
  readonly bodies: BodyBudget;
  tick = 0;
  readonly #server: Server | TlsServer;
  readonly #options: FastPathOptions;
  readonly #theirs: readonly ((socket: Socket) => void)[];
  readonly #connections = new Set<FastPathConnection>();
  readonly #idleTicks: number;
  #timer: NodeJS.Timeout | null = null;

  constructor(server: Server | TlsServer, options: FastPathOptions) {
    this.#server = server;
    this.#options = options;
    this.maxRequests = options.maxRequests;
    this.bodies = options.bodies;
    this.heads = new AnswerHeads(options.keepAliveMs, options.maxRequests);
    this.#idleTicks = Math.ceil((options.keepAliveMs + KEEP_ALIVE_MARGIN_MS) / options.tickMs);
    const event = options.encrypted ? 'secureConnection' : 'connection';
    this.#theirs = server.listeners(event) as ((socket: Socket) => void)[];
    server.removeAllListeners(event);
    server.on(event, (socket: Socket) => this.#begin(socket));
  }

  serve(http: FastPathContext): void {
    this.#options.serve(http);
  }

  handOver(connection: FastPathConnection, bytes: Buffer | null): void {
    this.gone(connection);
    connection.release();
    const { socket } = connection;
    // Not to flow before they listen.
    socket.pause();
    if (bytes !== null) socket.unshift(bytes);
    for (const listener of this.#theirs) listener.call(this.#server, socket);
    socket.resume();
  }

  gone(connection: FastPathConnection): void {
    this.#connections.delete(connection);
    if (this.#connections.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  onMalformed(): void {
    this.#options.onMalformed();
  }

  /** Those that have been idle for so long, with an answer for a request that is on its way. */
  closeIdle(answer: string, idleMs = 0): void {
    const ticks = Math.ceil(idleMs / this.#options.tickMs);
    for (const connection of this.#connections) {
      if (connection.idle && this.tick - connection.since >= ticks) connection.leave(answer);
    }
  }

  closeAll(): void {
    for (const connection of this.#connections) connection.socket.destroy();
  }

  #begin(socket: Socket): void {
    this.#connections.add(new FastPathConnection(socket, this));
    // Once the loop has read from all connections: a request that has come while this process stood still is no silence.
    this.#timer ??= setInterval(() => setImmediate(() => this.#turn()), this.#options.tickMs).unref();
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
