import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What the server does with one request: messages before the answer, and the answer, as JSON texts with `$ID` for the id. */
export interface Script {
  readonly before?: readonly string[];
  readonly answer: string;
  /** Whether the server answers only after it received an answer to its own request. */
  readonly waitsForAnswer?: boolean;
}

export const HANDSHAKE_EXTRA = '"x-hello":{"n":1.0,"z":12345678901234567890}';

/**
 * A hand-written Streamable HTTP server that never parses its messages: it keeps the texts that it received, and answers with
 * texts. It finds method and id by a plain search, so no JSON library can hide damage.
 */
export class RawServer {
  readonly received: string[] = [];
  readonly answers: string[] = [];
  readonly scripts = new Map<string, Script>();
  readonly #era: 'stateful' | 'stateless';
  readonly #server: Server;
  #answered: (() => void) | null = null;

  constructor(era: 'stateful' | 'stateless') {
    this.#era = era;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  async listen(): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/mcp`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  /** The last text received for a method. */
  last(method: string): string {
    const text = this.received.findLast((one) => methodOf(one) === method);
    if (text === undefined)
      throw new Error(`${method} was not received; only ${this.received.map(methodOf).join(', ')}`);
    return text;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== 'POST') {
      response.writeHead(405).end();
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const method = methodOf(text);
    if (method === '') {
      this.answers.push(text);
      response.writeHead(202).end();
      this.#answered?.();
      return;
    }
    this.received.push(text);
    const id = /"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[\d.eE+-]+)/.exec(text)?.[1];
    if (id === undefined) {
      response.writeHead(202).end();
      return;
    }
    const script = this.scripts.get(method) ?? this.#handshake(method);
    if (script === null) {
      const status = this.#era === 'stateless' ? 404 : 400;
      this.#json(response, status, `{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"no such method"}}`);
      return;
    }
    const headers = method === 'initialize' ? { 'mcp-session-id': 'raw-1' } : {};
    const answer = script.answer.replace('$ID', id);
    if (script.before === undefined) {
      this.#json(response, 200, answer, headers);
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
    const heard = new Promise<void>((done) => {
      this.#answered = done;
    });
    const token = /"progressToken"\s*:\s*("(?:[^"\\]|\\.)*"|-?[\d.eE+-]+)/.exec(text)?.[1] ?? 'null';
    for (const message of script.before) response.write(event(message.replace('$TOKEN', token)));
    if (script.waitsForAnswer === true) await heard;
    response.end(event(answer));
  }

  #json(response: ServerResponse, status: number, text: string, headers: Record<string, string> = {}): void {
    const body = Buffer.from(text);
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length, ...headers });
    response.end(body);
  }

  #handshake(method: string): Script | null {
    const capabilities = `{"tools":{"listChanged":true,"x-cap":1.0},"resources":{"subscribe":true},"prompts":{},"completions":{},"logging":{}}`;
    if (method === 'initialize' && this.#era === 'stateful') {
      return {
        answer: `{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"raw","version":"1",${HANDSHAKE_EXTRA}},"capabilities":${capabilities},${HANDSHAKE_EXTRA}}}`,
      };
    }
    if (method === 'server/discover' && this.#era === 'stateless') {
      return {
        answer: `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":${capabilities},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"raw","version":"1"}},${HANDSHAKE_EXTRA}}}`,
      };
    }
    const list = /^(?:(tools|prompts|resources)\/list|resources\/templates\/list)$/.exec(method);
    if (list !== null) {
      const key = list[1] ?? 'resourceTemplates';
      const extra = this.#era === 'stateless' ? '"resultType":"complete","ttlMs":0,"cacheScope":"private",' : '';
      return { answer: `{"jsonrpc":"2.0","id":$ID,"result":{${extra}"${key}":[]}}` };
    }
    return null;
  }
}

export function methodOf(text: string): string {
  return /"method"\s*:\s*"([^"]*)"/.exec(text)?.[1] ?? '';
}

function event(json: string): string {
  return `${json
    .split('\n')
    .map((line) => `data: ${line}`)
    .join('\n')}\n\n`;
}
