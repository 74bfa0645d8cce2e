import { EventReader, type Json, open, send } from './raw-http.ts';

export interface WireClientOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly capabilities?: object;
  readonly revision?: string;
  /** What the client calls itself. */
  readonly name?: string;
}

/** Methods whose requests name something in `Mcp-Name`. */
const NAMED = ['tools/call', 'prompts/get', 'resources/read', 'tasks/get', 'tasks/update', 'tasks/cancel'];

/** The outcome of a request: the message with its id, the messages before it on its stream, and the HTTP status. */
export interface WireAnswer {
  readonly status: number;
  readonly message: Json;
  readonly before: readonly Json[];
}

/**
 * A minimal client of one era, for tests of a running gateway: `request` sends a request as given and returns the
 * outcome; `answer` provides the results for requests of the server's.
 */
export class WireClient {
  /** Can be changed to any node of a cluster: the session stays. */
  url: string;
  readonly era: 'stateful' | 'stateless';
  sessionId: string | null = null;
  /** Returns the `result` for a server's own request. */
  answer: (request: Json) => object = () => ({});
  readonly asked: Json[] = [];
  readonly #options: WireClientOptions;
  #ids = 0;

  constructor(url: string, era: 'stateful' | 'stateless' = 'stateful', options: WireClientOptions = {}) {
    this.url = url;
    this.era = era;
    this.#options = options;
  }

  static async open(url: string, options: WireClientOptions = {}): Promise<WireClient> {
    const client = new WireClient(url, 'stateful', options);
    await client.initialize();
    return client;
  }

  get capabilities(): object {
    return this.#options.capabilities ?? {};
  }

  get revision(): string {
    return this.#options.revision ?? (this.era === 'stateful' ? '2025-11-25' : '2026-07-28');
  }

  async initialize(): Promise<Json> {
    const { capabilities = {}, name = 'wire' } = this.#options;
    const clientInfo = { name, version: '1' };
    const answer = await this.request('initialize', { protocolVersion: this.revision, capabilities, clientInfo });
    await this.notify('notifications/initialized');
    return answer.message.result;
  }

  /** The result of the request; throws an error with any other answer. */
  async result(method: string, params: object = {}): Promise<Json> {
    const { message } = await this.request(method, params);
    if (message?.result === undefined) throw new Error(`${method}: ${JSON.stringify(message)}`);
    return message.result;
  }

  call(name: string, args: object = {}): Promise<Json> {
    return this.result('tools/call', { name, arguments: args });
  }

  async callText(name: string, args: object = {}): Promise<string> {
    return (await this.call(name, args)).content[0].text;
  }

  /** The names of all pages of `tools/list`. */
  async toolNames(): Promise<string[]> {
    const names: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await this.result('tools/list', cursor === undefined ? {} : { cursor });
      names.push(...page.tools.map(({ name }: { name: string }) => name));
      if (page.nextCursor === undefined) return names;
      cursor = page.nextCursor;
    }
  }

  async request(method: string, params: Json = {}): Promise<WireAnswer> {
    const id = ++this.#ids;
    const reader = await this.post({ jsonrpc: '2.0', id, method, params: this.#withMeta(params) });
    const before: Json[] = [];
    for (;;) {
      const message = await reader.message();
      if (message === null || message.id === id || message.id === null) {
        return { status: reader.status, message, before };
      }
      before.push(message);
      if (message.id !== undefined && message.method !== undefined) await this.#reply(message);
    }
  }

  async notify(method: string, params: object = {}): Promise<number> {
    const reply = await send(
      this.url,
      'POST',
      this.#headers(method, params),
      JSON.stringify({ jsonrpc: '2.0', method }),
    );
    return reply.status;
  }

  /** The stream that belongs to no request. */
  listen(lastEventId?: string): Promise<EventReader> {
    return EventReader.open(this.url, 'GET', {
      ...this.#headers('', {}),
      accept: 'text/event-stream',
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    });
  }

  /** An acknowledged `subscriptions/listen` of a stateless client. */
  async listening(
    notifications: object,
  ): Promise<Pick<EventReader, 'message' | 'drop'> & { readonly acknowledged: Json }> {
    const params = this.#withMeta({ notifications });
    const stream = await this.post({
      jsonrpc: '2.0',
      id: `listen-${++this.#ids}`,
      method: 'subscriptions/listen',
      params,
    });
    const first = await stream.message();
    if (first?.method !== 'notifications/subscriptions/acknowledged') throw new Error(JSON.stringify(first));
    return { message: () => stream.message(), drop: () => stream.drop(), acknowledged: first.params.notifications };
  }

  async post(message: Json): Promise<Pick<EventReader, 'status' | 'message' | 'drop'>> {
    const headers = this.#headers(message.method ?? '', message.params ?? {});
    const { request, response } = await open(this.url, 'POST', headers, JSON.stringify(message));
    const session = response.headers['mcp-session-id'];
    if (typeof session === 'string') this.sessionId ??= session;
    if ((response.headers['content-type'] ?? '').startsWith('text/event-stream')) {
      return new EventReader(request, response);
    }
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const json: Json = text === '' ? null : JSON.parse(text);
    return { status: response.statusCode!, message: () => Promise.resolve(json), drop: () => {} };
  }

  async #reply(request: Json): Promise<void> {
    this.asked.push(request);
    const message = { jsonrpc: '2.0', id: request.id, result: this.answer(request) };
    await send(this.url, 'POST', this.#headers('', {}), JSON.stringify(message));
  }

  #withMeta(params: Json): Json {
    if (this.era === 'stateful') return params;
    const meta = {
      'io.modelcontextprotocol/protocolVersion': this.revision,
      'io.modelcontextprotocol/clientInfo': { name: 'wire', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': this.#options.capabilities ?? {},
      ...params._meta,
    };
    return { ...params, _meta: meta };
  }

  #headers(method: string, params: Json): Record<string, string> {
    const name = params.name ?? params.uri ?? params.taskId;
    const named = this.era === 'stateless' && NAMED.includes(method);
    return {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(this.era === 'stateless' ? { 'mcp-protocol-version': this.revision, 'mcp-method': method } : {}),
      ...(named && typeof name === 'string' ? { 'mcp-name': name } : {}),
      ...(this.sessionId === null ? {} : { 'mcp-session-id': this.sessionId, 'mcp-protocol-version': this.revision }),
      ...this.#options.headers,
    };
  }
}
