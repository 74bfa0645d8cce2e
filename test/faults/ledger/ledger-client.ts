import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import type { Attempt, Ending, History } from './history.ts';

export interface LedgerClientOptions {
  readonly url: string;
  readonly era: 'stateful' | 'stateless';
  readonly name: string;
  readonly history: History;
  /** Connections at once. */
  readonly sockets?: number;
  /** Where each request goes, instead of to `url`. */
  readonly route?: () => Route;
  /** How long it waits for an answer; then it hangs up, and the call is LOST. */
  readonly patienceMs?: number;
}

/** One of several nodes. */
export interface Route {
  readonly node: string;
  readonly url: string;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly message: string | null;
}

export interface CallOptions {
  readonly own?: string;
  readonly abandonAfterMs?: number;
  readonly call?: string;
  /** The history of this call, if not the client's own: for servers that keep no ledger. */
  readonly history?: History;
  /** The call that the text of a result names; null for none. By default as a ledger server writes it. */
  readonly callOf?: (text: string, call: string) => string | null;
}

const REVISION = { stateful: '2025-11-25', stateless: '2026-07-28' } as const;
const META = {
  'io.modelcontextprotocol/protocolVersion': REVISION.stateless,
  'io.modelcontextprotocol/clientInfo': { name: 'ledger', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

/**
 * A client that writes down every attempt before it makes it and every answer as it came. It repeats nothing of its
 * own accord. Ids are alternately texts and integers beyond what a double holds.
 */
export class LedgerClient {
  readonly history: History;
  readonly name: string;
  readonly era: 'stateful' | 'stateless';
  url: string;
  sessionId: string | null = null;
  /** Which node opened it, and when; among several. */
  opened: { readonly via: string; readonly at: number } | null = null;
  readonly #route: (() => Route) | undefined;
  readonly #patienceMs: number | undefined;
  readonly #agent: Agent;
  readonly #open = new Set<ClientRequest>();
  #count = 0;
  #sessions = 0;

  constructor(options: LedgerClientOptions) {
    this.url = options.url;
    this.era = options.era;
    this.name = options.name;
    this.history = options.history;
    this.#route = options.route;
    this.#patienceMs = options.patienceMs;
    this.#agent = new Agent({ keepAlive: true, maxSockets: options.sockets ?? Number.POSITIVE_INFINITY });
  }

  /** The name of its session in the ledger. Clients of the stateless era that declare the same share one. */
  get session(): string {
    return this.era === 'stateless' ? 'stateless' : `${this.name}/${this.#sessions}`;
  }

  /** Opens a session; nothing to do in the stateless era. */
  async open(): Promise<void> {
    if (this.era === 'stateless') return;
    this.sessionId = null;
    const params = {
      protocolVersion: REVISION.stateful,
      capabilities: {},
      clientInfo: { name: this.name, version: '1' },
    };
    const body = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":${JSON.stringify(params)}}`;
    const route = this.#route?.();
    const answer = await this.#send('POST', body, [], undefined, route);
    if (route !== undefined) this.opened = { via: route.node, at: performance.now() };
    const id = answer.headers['mcp-session-id'];
    if (typeof id !== 'string') throw new Error(`no session: ${answer.status} ${answer.message}`);
    this.sessionId = id;
    this.#sessions++;
    await this.#send('POST', '{"jsonrpc":"2.0","method":"notifications/initialized"}');
  }

  /** The parsed result (or error) of a request that is not a tool call. */
  async request(method: string, params: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const body = { jsonrpc: '2.0', id: ++this.#count, method, params: this.#params(params) };
    const answer = await this.#send('POST', JSON.stringify(body), this.#routing(method));
    return JSON.parse(answer.message ?? `{"status":${answer.status}}`) as Record<string, unknown>;
  }

  /**
   * Calls a tool; `tool` as the endpoint names it, `own` as the server does, where that differs. Never rejects. With
   * `abandonAfterMs` it hangs up without waiting for the answer.
   */
  async call(tool: string, args: Record<string, unknown> = {}, options: CallOptions = {}): Promise<Attempt> {
    const n = ++this.#count;
    const call = options.call ?? `${this.name}-${n}`;
    const rpcId = n % 2 === 0 ? `"${call}"` : `${9_007_199_254_740_993n + BigInt(n)}`;
    const prefix = tool.lastIndexOf('__');
    const own = options.own ?? tool.slice(prefix < 0 ? 0 : prefix + 2);
    const attempt = (options.history ?? this.history).begin(this.name, call, own, rpcId);
    const route = this.#route?.();
    if (prefix > 0) attempt.server = tool.slice(0, prefix);
    if (route !== undefined) attempt.via = route.node;
    if (this.opened !== null) attempt.opened = this.opened;
    const params = JSON.stringify(this.#params({ name: tool, arguments: { call, session: this.session, ...args } }));
    const body = `{"jsonrpc":"2.0","id":${rpcId},"method":"tools/call","params":${params}}`;
    try {
      const { abandonAfterMs } = options;
      attempt.abandoned = abandonAfterMs !== undefined;
      const answer = await this.#send('POST', body, this.#routing('tools/call', tool), abandonAfterMs, route);
      judge(attempt, answer, options.callOf ?? callOf);
    } catch (error) {
      // Among several nodes: a node that does not listen received nothing.
      const refused = route !== undefined && (error as NodeJS.ErrnoException).code === 'ECONNREFUSED';
      attempt.ending = refused ? 'NOT_SENT' : 'LOST';
      attempt.reason = String(error);
    }
    attempt.endedAt = performance.now();
    return attempt;
  }

  /** Ends the session as a well-behaved client does. */
  async end(): Promise<void> {
    if (this.sessionId !== null) await this.#send('DELETE', '').catch(() => {});
    this.sessionId = null;
    this.close();
  }

  /** Hangs up on everything. */
  close(): void {
    for (const request of this.#open) request.destroy();
    this.#agent.destroy();
  }

  #params(params: Record<string, unknown>): Record<string, unknown> {
    return this.era === 'stateless' ? { ...params, _meta: META } : params;
  }

  #routing(method: string, name?: string): readonly string[] {
    if (this.era === 'stateful') return [];
    return name === undefined ? ['mcp-method', method] : ['mcp-method', method, 'mcp-name', name];
  }

  #send(
    method: string,
    body: string,
    more: readonly string[] = [],
    abandonAfterMs?: number,
    route = this.#route?.(),
  ): Promise<Answer> {
    const url = route?.url ?? this.url;
    const hangUpAfterMs = abandonAfterMs ?? this.#patienceMs;
    const headers = ['accept', 'application/json, text/event-stream', 'host', new URL(url).host, ...more];
    if (body !== '')
      headers.push('content-type', 'application/json', 'content-length', String(Buffer.byteLength(body)));
    if (this.era === 'stateless') headers.push('mcp-protocol-version', REVISION.stateless);
    else if (this.sessionId !== null) {
      headers.push('mcp-session-id', this.sessionId, 'mcp-protocol-version', REVISION.stateful);
    }
    return new Promise((resolve, reject) => {
      const request = httpRequest(url, { method, headers, agent: this.#agent });
      this.#open.add(request);
      let timer: NodeJS.Timeout | undefined;
      request.on('close', () => {
        clearTimeout(timer);
        this.#open.delete(request);
      });
      if (hangUpAfterMs !== undefined) timer = setTimeout(() => request.destroy(), hangUpAfterMs);
      request.on('error', reject);
      request.on('response', (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          const sse = response.headers['content-type']?.startsWith('text/event-stream') === true;
          const message = sse ? answerIn(text) : text === '' ? null : text;
          if (sse && message === null) reject(new Error('the stream ended without an answer'));
          else resolve({ status: response.statusCode ?? 0, headers: response.headers, message });
        });
      });
      request.end(body);
    });
  }
}

/** The answer in an event stream: the one message of it that has no method. */
function answerIn(text: string): string | null {
  for (const line of text.split('\n')) {
    if (!line.startsWith('data:')) continue;
    const data = line.slice(5).trim();
    if (data !== '' && !('method' in (JSON.parse(data) as object))) return data;
  }
  return null;
}

function callOf(text: string): string | null {
  return /^done (\S+)/.exec(text)?.[1] ?? null;
}

function judge(attempt: Attempt, answer: Answer, named: NonNullable<CallOptions['callOf']>): void {
  if (answer.message === null) {
    attempt.ending = 'REFUSED';
    attempt.reason = `HTTP ${answer.status}`;
    return;
  }
  const message = JSON.parse(answer.message) as {
    result?: { isError?: boolean; content?: { text?: string }[]; _meta?: Record<string, { outcome: Ending }> };
    error?: { code: number; message: string; data?: { outcome?: Ending } };
  };
  attempt.answeredId = /"id":\s*("(?:[^"\\]|\\.)*"|[-\d.eE+]+)/.exec(answer.message)?.[1] ?? null;
  const text = message.result?.content?.[0]?.text ?? '';
  const failure = message.result?._meta?.['trunkline/error'] ?? message.error?.data;
  if (failure?.outcome !== undefined) {
    attempt.ending = failure.outcome;
    attempt.reason = JSON.stringify(message.error ?? message.result).slice(0, 1000);
  } else if (message.result !== undefined) {
    attempt.ending = 'RESULT';
    attempt.answeredCall = named(text, attempt.call);
    attempt.reason = text;
  } else {
    attempt.ending = answer.status >= 400 ? 'REFUSED' : 'UNKNOWN';
    attempt.reason = answer.message.slice(0, 1000);
  }
}
