/** One answer of the gateway: the messages of its stream, or its one JSON body, as texts. */
export interface RawAnswer {
  readonly status: number;
  readonly messages: readonly string[];
}

export const CAPABILITIES = '{"sampling":{"x-s":1.0},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}';
const INFO = '{"name":"raw-client","version":"1","x-info":12345678901234567890}';

/** A client that sends and keeps messages as texts, in one era. */
export class RawClient {
  readonly #url: string;
  readonly #era: 'stateful' | 'stateless';
  #session: string | null = null;
  /** The `initialize` (or `server/discover`) exchange: the request and its answer. */
  handshake: { readonly sent: string; readonly answer: RawAnswer } | null = null;

  constructor(url: string, era: 'stateful' | 'stateless') {
    this.#url = url;
    this.#era = era;
  }

  /** The `_meta` members this era needs in every request; empty for stateful ones. */
  get meta(): string {
    if (this.#era === 'stateful') return '';
    const p = 'io.modelcontextprotocol';
    return `"${p}/protocolVersion":"2026-07-28","${p}/clientInfo":${INFO},"${p}/clientCapabilities":${CAPABILITIES},`;
  }

  async open(): Promise<void> {
    if (this.#era === 'stateless') {
      const sent = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{${this.meta}"x-d":1.0}}}`;
      this.handshake = { sent, answer: await this.send(sent) };
      return;
    }
    const params = `{"protocolVersion":"2025-11-25","capabilities":${CAPABILITIES},"clientInfo":${INFO}}`;
    const sent = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":${params}}`;
    this.handshake = { sent, answer: await this.send(sent) };
    await this.send('{"jsonrpc":"2.0","method":"notifications/initialized"}');
  }

  /** Sends one text; `onRequest` answers requests of the server's own that come on the stream. */
  async send(text: string, onRequest?: (request: string) => string): Promise<RawAnswer> {
    const method = /"method"\s*:\s*"([^"]*)"/.exec(text)?.[1] ?? '';
    const name = /"(?:name|uri)"\s*:\s*"([^"]*)"/.exec(text)?.[1];
    const named = ['tools/call', 'prompts/get', 'resources/read'].includes(method) && name !== undefined;
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(this.#era === 'stateless' ? { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method } : {}),
      ...(this.#era === 'stateless' && named ? { 'mcp-name': name } : {}),
      ...(this.#session === null ? {} : { 'mcp-session-id': this.#session, 'mcp-protocol-version': '2025-11-25' }),
    };
    const response = await fetch(this.#url, { method: 'POST', headers, body: text });
    this.#session ??= response.headers.get('mcp-session-id');
    if (!(response.headers.get('content-type') ?? '').startsWith('text/event-stream')) {
      const body = await response.text();
      return { status: response.status, messages: body === '' ? [] : [body] };
    }
    const messages: string[] = [];
    for await (const message of events(response.body!)) {
      messages.push(message);
      if (/"method"/.test(message) && /^\{[^{]*"id"|"id"\s*:[^{}]*\}$/.test(message) && onRequest !== undefined) {
        await this.send(onRequest(message));
      }
    }
    return { status: response.status, messages };
  }
}

async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = '';
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const lines = rest.slice(0, end).split('\n');
      rest = rest.slice(end + 2);
      const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).replace(/^ /, ''));
      const text = data.join('\n');
      if (text !== '') yield text;
    }
  }
}
