import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';

/** A plain HTTP proxy in front of several nodes: each request goes to the next of them, whoever sends it. */
export class RoundRobin implements AsyncDisposable {
  readonly #nodes: readonly URL[];
  readonly #server: Server;
  /** How many requests each node got. */
  readonly counts: number[];
  #next = 0;

  private constructor(nodes: readonly string[]) {
    this.#nodes = nodes.map((url) => new URL(url));
    this.counts = nodes.map(() => 0);
    this.#server = createServer((incoming, response) => this.#pass(incoming, response));
  }

  /** `nodes`: their origins. Always on the loopback. */
  static async start(nodes: readonly string[]): Promise<RoundRobin> {
    const proxy = new RoundRobin(nodes);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  #pass(incoming: IncomingMessage, response: ServerResponse): void {
    const index = this.#next++ % this.#nodes.length;
    this.counts[index]!++;
    const { hostname, port } = this.#nodes[index]!;
    const { method, url: path, rawHeaders } = incoming;
    const outgoing = request({ hostname, port, method, path, headers: rawHeaders, agent: false, setHost: false });
    outgoing.on('response', (answer) => {
      response.writeHead(answer.statusCode!, answer.rawHeaders);
      response.flushHeaders();
      answer.pipe(response);
      answer.on('error', () => response.destroy());
    });
    outgoing.on('error', () => response.destroy());
    response.on('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  }
}
