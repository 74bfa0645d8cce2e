import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';

/** Interval of the readiness checks of each node; load balancers check about once a second. */
const LOOK_MS = 1_000;

/** A node as the proxy knows it. */
export interface Backend {
  /** Its current origin: a restart of the node changes it. */
  readonly origin: () => string;
}

/**
 * A plain proxy in front of nodes: requests go to the next node that reports that it is ready, over kept connections. After
 * a refused connection the proxy tries the next node; a request that was sent is never sent again.
 */
export class ReadyProxy implements AsyncDisposable {
  /** The reasons of the errors that the proxy answered itself: calls that failed on the way. */
  readonly failures: string[] = [];
  readonly #backends: readonly Backend[];
  readonly #ready: boolean[];
  readonly #server: Server;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #looking: NodeJS.Timeout;
  #next = 0;

  private constructor(backends: readonly Backend[]) {
    this.#backends = backends;
    this.#ready = backends.map(() => true);
    this.#server = createServer((incoming, response) => void this.#take(incoming, response));
    this.#looking = setInterval(() => void this.#look(), LOOK_MS);
  }

  static async start(backends: readonly Backend[]): Promise<ReadyProxy> {
    const proxy = new ReadyProxy(backends);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    await proxy.#look();
    return proxy;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  /** Which of the nodes get requests, in their order. */
  get ready(): readonly boolean[] {
    return this.#ready;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#looking);
    this.#server.close();
    this.#server.closeAllConnections();
    this.#agent.destroy();
    await once(this.#server, 'close');
  }

  async #look(): Promise<void> {
    await Promise.all(
      this.#backends.map(async ({ origin }, i) => {
        const answer = await fetch(`${origin()}/readyz`, { signal: AbortSignal.timeout(LOOK_MS) }).catch(() => null);
        await answer?.body?.cancel();
        this.#ready[i] = answer?.ok === true;
      }),
    );
  }

  async #take(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    this.#pass(incoming, Buffer.concat(chunks), response, this.#backends.length);
  }

  #pass(incoming: IncomingMessage, body: Buffer, response: ServerResponse, left: number): void {
    const index = this.#choose();
    if (index < 0 || left === 0) {
      this.#fail(response, 'no node is ready');
      return;
    }
    const { hostname, port } = new URL(this.#backends[index]!.origin());
    const { method, url: path } = incoming;
    const headers = onward(incoming.rawHeaders);
    const outgoing = request({ hostname, port, method, path, headers, agent: this.#agent, setHost: false });
    outgoing.on('response', (answer) => {
      response.writeHead(answer.statusCode!, onward(answer.rawHeaders));
      response.flushHeaders();
      answer.pipe(response);
      answer.on('error', () => response.destroy());
    });
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      if (response.headersSent || response.destroyed) return void response.destroy();
      if (error.code === 'ECONNREFUSED') {
        this.#ready[index] = false;
        this.#pass(incoming, body, response, left - 1);
      } else
        this.#fail(response, `${method} ${path} at node ${index}: ${error.message}, reused: ${outgoing.reusedSocket}`);
    });
    response.on('close', () => outgoing.destroy());
    outgoing.end(body);
  }

  #choose(): number {
    for (let i = 0; i < this.#backends.length; i++) {
      const index = this.#next++ % this.#backends.length;
      if (this.#ready[index]) return index;
    }
    return -1;
  }

  #fail(response: ServerResponse, reason: string): void {
    this.failures.push(reason);
    response.writeHead(502, { 'content-type': 'text/plain' }).end(reason);
  }
}

/** Removes hop-by-hop headers. */
function onward(rawHeaders: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!/^(connection|keep-alive|transfer-encoding)$/i.test(rawHeaders[i]!))
      kept.push(rawHeaders[i]!, rawHeaders[i + 1]!);
  }
  return kept;
}
