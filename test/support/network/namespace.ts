import { randomInt } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { runProgram } from '../run-program.ts';

/** Private addresses for the two ends of a cable. */
const NET = '10.213';

/**
 * A network namespace with a cable to this machine, over which only a proxy can be reached: a process in it has a network
 * as long as the cable is plugged in and its environment names the proxy. Linux only, as root.
 */
export class NetworkNamespace {
  /** The beginning of a command that runs in it. */
  readonly enter: readonly [string, ...string[]];
  readonly proxy: TunnelProxy;
  readonly #name: string;
  readonly #cable: string;

  /** Returns the reason if none can be created. */
  static async create(): Promise<NetworkNamespace | string> {
    const number = randomInt(1, 250);
    const [name, cable, far] = [`tl${number}`, `tl${number}h`, `tl${number}n`];
    const inside = ['netns', 'exec', name, 'ip'];
    const steps = [
      ['netns', 'add', name],
      ['link', 'add', cable, 'type', 'veth', 'peer', 'name', far, 'netns', name],
      ['addr', 'add', `${NET}.${number}.1/30`, 'dev', cable],
      ['link', 'set', cable, 'up'],
      [...inside, 'addr', 'add', `${NET}.${number}.2/30`, 'dev', far],
      [...inside, 'link', 'set', 'lo', 'up'],
      [...inside, 'link', 'set', far, 'up'],
    ];
    for (const step of steps) {
      const { code, err } = await ip(...step);
      if (code === 0) continue;
      await ip('netns', 'del', name);
      return `ip ${step.join(' ')}: ${err}`;
    }
    return new NetworkNamespace(name, cable, await TunnelProxy.start(`${NET}.${number}.1`));
  }

  private constructor(name: string, cable: string, proxy: TunnelProxy) {
    this.#name = name;
    this.#cable = cable;
    this.enter = ['ip', 'netns', 'exec', name];
    this.proxy = proxy;
  }

  async plug(inserted: boolean): Promise<void> {
    const { code, err } = await ip('link', 'set', this.#cable, inserted ? 'up' : 'down');
    if (code !== 0) throw new Error(err);
  }

  async dispose(): Promise<void> {
    await this.proxy.close();
    await ip('netns', 'del', this.#name);
  }
}

async function ip(...args: string[]): Promise<{ code: number | null; err: string }> {
  return runProgram(['ip', ...args]).catch((error: Error) => ({ code: null, err: error.message }));
}

/** An HTTP proxy for `CONNECT`. It never answers other requests. */
export class TunnelProxy {
  readonly url: string;
  readonly #server: ReturnType<typeof createServer>;
  readonly #open = new Set<Duplex>();

  static async start(address: string): Promise<TunnelProxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, address, resolve));
    return new TunnelProxy(server);
  }

  private constructor(server: ReturnType<typeof createServer>) {
    const { address, port } = server.address() as AddressInfo;
    this.url = `http://${address}:${port}`;
    this.#server = server;
    server.on('connect', (request, socket, head) => this.#connect(request, socket, head));
    server.on('connection', (socket: Socket) => this.#keep(socket));
  }

  async close(): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #connect(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { hostname, port } = new URL(`http://${request.url}`);
    const onward = connect(Number(port || 443), hostname, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      onward.write(head);
      onward.pipe(socket).pipe(onward);
    });
    this.#keep(onward);
    onward.once('close', () => socket.destroy());
    socket.once('close', () => onward.destroy());
  }

  #keep(socket: Duplex): void {
    this.#open.add(socket);
    // A connection that has lost its network may fail with an error.
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.#open.delete(socket));
  }
}
