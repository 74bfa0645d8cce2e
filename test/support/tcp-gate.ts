import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** `up`: towards the target. */
export type Direction = 'up' | 'down';

/** A TCP proxy that can be shut, as a network that is down, held in one direction or both, slowed, and opened again. */
export class TcpGate implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #lines = new Set<Line>();
  readonly #held = new Set<Direction>();
  #open = true;
  #delayMs = 0;

  private constructor(target: number) {
    this.#server = createServer((near) => {
      if (!this.#open) {
        near.destroy();
        return;
      }
      const far = connect(target, '127.0.0.1');
      const lines = [new Line(near, far, 'up', this.#delayMs), new Line(far, near, 'down', this.#delayMs)];
      for (const line of lines) {
        this.#lines.add(line);
        line.hold(this.#held.has(line.direction));
      }
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.setNoDelay(true);
        socket.on('error', () => {});
        socket.on('close', () => {
          this.#sockets.delete(socket);
          for (const line of lines) this.#lines.delete(line);
          near.destroy();
          far.destroy();
        });
      }
    });
  }

  static async start(target: number): Promise<TcpGate> {
    const gate = new TcpGate(target);
    gate.#server.listen(0, '127.0.0.1');
    await once(gate.#server, 'listening');
    return gate;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  /** Cuts every connection and accepts no new one. */
  shut(): void {
    this.#open = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Keeps connections, and holds the data in these directions until the gate is opened, as TCP does. */
  hold(...directions: readonly Direction[]): void {
    for (const direction of directions) this.#held.add(direction);
    for (const line of this.#lines) if (this.#held.has(line.direction)) line.hold(true);
  }

  /** Delays all data by this time. */
  slow(delayMs: number): void {
    this.#delayMs = delayMs;
    for (const line of this.#lines) line.delayMs = delayMs;
  }

  /** Restores the initial state. */
  open(): void {
    this.#open = true;
    this.#held.clear();
    this.slow(0);
    for (const line of this.#lines) line.hold(false);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.shut();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

/** One direction of a connection. */
class Line {
  readonly direction: Direction;
  delayMs: number;
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #waiting: { readonly at: number; readonly chunk: Buffer | null }[] = [];
  #timer: NodeJS.Timeout | null = null;
  #held = false;

  constructor(from: Socket, to: Socket, direction: Direction, delayMs: number) {
    this.direction = direction;
    this.delayMs = delayMs;
    this.#from = from;
    this.#to = to;
    from.on('data', (chunk: Buffer) => this.#take(chunk));
    from.on('end', () => this.#take(null));
    to.on('drain', () => this.#flow());
    from.on('close', () => clearTimeout(this.#timer ?? undefined));
  }

  hold(held: boolean): void {
    this.#held = held;
    if (held) this.#from.pause();
    else this.#flow();
  }

  #take(chunk: Buffer | null): void {
    if (this.delayMs === 0 && this.#waiting.length === 0 && !this.#held) this.#pass(chunk);
    else {
      this.#waiting.push({ at: performance.now() + this.delayMs, chunk });
      this.#flow();
    }
  }

  #flow(): void {
    if (this.#held || this.#to.destroyed) return;
    const now = performance.now();
    while (this.#waiting.length > 0 && this.#waiting[0]!.at <= now) this.#pass(this.#waiting.shift()!.chunk);
    if (!this.#to.writableNeedDrain) this.#from.resume();
    if (this.#waiting.length === 0 || this.#timer !== null) return;
    const later = Math.max(1, this.#waiting[0]!.at - now);
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#flow();
    }, later);
  }

  #pass(chunk: Buffer | null): void {
    if (chunk === null) this.#to.end();
    else if (!this.#to.write(chunk)) this.#from.pause();
  }
}
