import { type ClientRequest, request as httpRequest } from 'node:http';

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'stands', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};
/** The time that the `retry` of a stream asks clients to wait. */
const AGAIN_MS = 200;
const LISTEN =
  '{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":META}}';

/**
 * Clients that hold a stream open and open it again when it ends: that of a session (GET), or a `subscriptions/listen`.
 * Records how each of them ended: in order, with the completion that a listen must have, or cut.
 */
export class StandingStreams {
  /** Streams that ended as the protocol requires. */
  completed = 0;
  /** A description of each stream that did not. */
  readonly cut: string[] = [];
  readonly #open = new Set<ClientRequest>();
  readonly #standing = new Set<object>();
  #running = true;

  /** Whether all streams that were begun are open now. */
  get all(): boolean {
    return this.#standing.size > 0 && [...this.#standing].every((one) => (one as Standing).open);
  }

  /** Holds the stream of a session open. */
  session(url: () => string, sessionId: string): void {
    this.#stand(url, 'GET', { 'mcp-session-id': sessionId, 'mcp-protocol-version': '2025-11-25' }, '');
  }

  listen(url: () => string): void {
    const headers = {
      'content-type': 'application/json',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'subscriptions/listen',
    };
    this.#stand(url, 'POST', headers, LISTEN.replace('META', JSON.stringify(META)));
  }

  close(): void {
    this.#running = false;
    for (const request of this.#open) request.destroy();
  }

  #stand(url: () => string, method: string, headers: Record<string, string>, body: string): void {
    const standing: Standing = { open: false };
    this.#standing.add(standing);
    const again = (): void => {
      standing.open = false;
      if (this.#running) setTimeout(open, AGAIN_MS);
    };
    const open = (): void => {
      if (!this.#running) return;
      let ended = false;
      const request = httpRequest(url(), {
        method,
        agent: false,
        headers: { accept: 'text/event-stream, application/json', ...headers },
      });
      this.#open.add(request);
      request.on('close', () => {
        this.#open.delete(request);
        again();
      });
      // No node is there at the moment, or this node takes no new streams: the stream is opened again later.
      request.on('error', () => {});
      request.on('response', (response) => {
        const stream = response.headers['content-type']?.startsWith('text/event-stream') === true;
        standing.open = response.statusCode === 200 && stream;
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        response.on('end', () => {
          ended = true;
          if (!standing.open) return;
          if (method === 'GET' || text.includes('"result"')) this.completed++;
          else this.cut.push(`a listen ended without its completion: ${text.slice(-200)}`);
        });
        response.on('error', () => {});
        response.on('close', () => {
          if (!ended && this.#running) this.cut.push(`a stream (${method}) was cut`);
        });
      });
      request.end(body);
    };
    open();
  }
}

interface Standing {
  open: boolean;
}
