import { request as ask, createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Listed {
  readonly result?: { readonly tools?: readonly { readonly name: string }[]; readonly nextCursor?: string };
}

/** A relay between a client and the gateway that forwards everything and records the lists of tools that the client got. */
export class RecordingRelay {
  readonly url: string;
  /** Names of each whole list of tools, in order. */
  readonly lists: string[][] = [];
  readonly #server: ReturnType<typeof createServer>;
  #pages: string[] = [];

  private constructor(server: ReturnType<typeof createServer>, path: string) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
  }

  static async start(mcpUrl: string): Promise<RecordingRelay> {
    let relay: RecordingRelay | null = null;
    const server = createServer((request, response) => relay!.#pass(request, response, new URL(mcpUrl)));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    relay = new RecordingRelay(server, new URL(mcpUrl).pathname);
    return relay;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pass(request: IncomingMessage, response: ServerResponse, to: URL): void {
    const { method, headers, url } = request;
    const onward = ask(new URL(url!, to), {
      method,
      headers: { ...headers, host: to.host, 'accept-encoding': 'identity' },
    });
    onward.once('response', (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      response.flushHeaders();
      let text = '';
      answer.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        response.write(chunk);
      });
      answer.once('end', () => {
        response.end();
        this.#record(text);
      });
      answer.once('error', () => response.destroy());
    });
    onward.once('error', () => response.destroy());
    response.once('close', () => onward.destroy());
    request.pipe(onward);
  }

  #record(text: string): void {
    const messages = text
      .split('\n')
      .map((line) => line.replace(/^data: ?/, ''))
      .filter((line) => line.startsWith('{'));
    for (const message of messages) {
      const { result } = JSON.parse(message) as Listed;
      if (result?.tools === undefined) continue;
      this.#pages.push(...result.tools.map(({ name }) => name));
      if (result.nextCursor !== undefined) continue;
      this.lists.push(this.#pages);
      this.#pages = [];
    }
  }
}
