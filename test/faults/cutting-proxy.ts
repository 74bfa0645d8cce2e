import { connect, createServer, type Server, type Socket } from 'node:net';

type Direction = 'request' | 'answer';

/** A TCP proxy that can reset one connection after a given number of bytes in one direction. */
export class CuttingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cut: Direction | null = null;
  #left = 0;

  static async start(target: number): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  private constructor(target: number) {
    this.#server = createServer((near) => {
      const far = connect(target, '127.0.0.1');
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => {
          this.#sockets.delete(socket);
          near.destroy();
          far.destroy();
        });
      }
      near.on('data', (bytes) => this.#pass('request', bytes, near, far));
      far.on('data', (bytes) => this.#pass('answer', bytes, near, near));
    });
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  /** Passes the next `afterBytes` bytes in this direction, then resets their connection. Null cancels that. */
  cutNext(direction: Direction | null, afterBytes: number): void {
    this.#cut = direction;
    this.#left = afterBytes;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pass(direction: Direction, bytes: Buffer, near: Socket, to: Socket): void {
    if (this.#cut !== direction) {
      to.write(bytes);
      return;
    }
    to.write(bytes.subarray(0, this.#left));
    this.#left -= bytes.length;
    if (this.#left > 0) return;
    this.#cut = null;
    // The reset must not overtake the bytes that were passed on.
    setTimeout(() => near.resetAndDestroy(), 20);
  }
}
