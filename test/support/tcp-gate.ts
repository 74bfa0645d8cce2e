import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy that can be shut, as a network that is down, and opened again. */
export class TcpGate implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #open = true;

  private constructor(target: number) {
    this.#server = createServer((near) => {
      if (!this.#open) {
        near.destroy();
        return;
      }
      const far = connect(target, '127.0.0.1');
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.setNoDelay(true);
        socket.on('error', () => {});
        socket.on('close', () => {
          this.#sockets.delete(socket);
          near.destroy();
          far.destroy();
        });
      }
      near.pipe(far);
      far.pipe(near);
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

  shut(): void {
    this.#open = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  open(): void {
    this.#open = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.shut();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
