import type { Job } from './job.ts';

const CLIENT = '{"name":"bench","version":"1"}';
const META =
  '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",' +
  `"io.modelcontextprotocol/clientInfo":${CLIENT},"io.modelcontextprotocol/clientCapabilities":{}}`;

/** Writes the requests of one client as complete HTTP/1.1 texts; the constant parts are prepared once. */
export class Messages {
  readonly #era: Job['era'];
  readonly #origin: string;
  readonly #path: string;
  readonly #tool: string;
  #common: string;

  constructor(job: Job) {
    const url = new URL(job.url);
    this.#era = job.era;
    this.#path = url.pathname;
    this.#tool = job.toolPrefix + job.tool;
    this.#origin = `HTTP/1.1\r\nhost: ${url.host}\r\n`;
    this.#common = 'content-type: application/json\r\naccept: application/json, text/event-stream\r\n';
    if (job.era === 'stateless') this.#common += 'mcp-protocol-version: 2026-07-28\r\n';
  }

  /** All further requests belong to this session; '' for a server without sessions. */
  session(id: string): void {
    this.#common += `mcp-protocol-version: 2025-11-25\r\n${id === '' ? '' : `mcp-session-id: ${id}\r\n`}`;
  }

  initialize(): string {
    const params = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":${CLIENT}}`;
    return this.#post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`, '');
  }

  initialized(): string {
    return this.#post('{"jsonrpc":"2.0","method":"notifications/initialized"}', '');
  }

  call(id: number, text: string): string {
    const params = `"name":"${this.#tool}","arguments":{"text":"${text}"}`;
    return this.#request(id, 'tools/call', params, `mcp-name: ${this.#tool}\r\n`);
  }

  list(id: number, cursor: string): string {
    return this.#request(id, 'tools/list', cursor === '' ? '' : `"cursor":${JSON.stringify(cursor)}`, '');
  }

  end(): string {
    return `DELETE ${this.#path} ${this.#origin}${this.#common}\r\n`;
  }

  stream(): string {
    return `GET ${this.#path} ${this.#origin}${this.#common}\r\n`;
  }

  #request(id: number, method: string, params: string, headers: string): string {
    if (this.#era === 'stateful')
      return this.#post(`{"jsonrpc":"2.0","id":${id},"method":"${method}","params":{${params}}}`, '');
    const all = params === '' ? META : `${params},${META}`;
    const body = `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":{${all}}}`;
    return this.#post(body, `mcp-method: ${method}\r\n${headers}`);
  }

  #post(body: string, headers: string): string {
    const length = `content-length: ${body.length}\r\n`;
    return `POST ${this.#path} ${this.#origin}${this.#common}${headers}${length}\r\n${body}`;
  }
}
