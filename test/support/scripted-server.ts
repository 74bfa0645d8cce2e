import type { PhaseTimes } from '../../src/http/client/phase-times.ts';
import { GatewayError } from '../../src/model/gateway-error.ts';
import { REQUEST_ID_MODULUS } from '../../src/upstream/transport/in-flight.ts';
import type {
  ClosedReason,
  CloseReason,
  NegotiatedFacts,
  Outgoing,
  Transport,
  TransportReceiver,
} from '../../src/upstream/transport/transport.ts';

export interface Params {
  readonly [key: string]: unknown;
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** A message as the scripted server sees it: parsed, because tests look into it. */
export interface Seen {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: Params;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** An error that a handler may return instead of a value. */
export class Refusal {
  readonly code: number;
  readonly message: string;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    this.code = code;
    this.message = message;
    this.data = data;
  }
}

export const SILENCE = Symbol('no answer');

export type Handler = (params: Params, link: ScriptedTransport, id: number) => unknown;

/**
 * A server as a table of handlers, and the transports to it. A handler's value is the `result`; a `Refusal` is an
 * error; `SILENCE` leaves the request open. Every connection opened is kept in `links`, oldest first.
 */
export class ScriptedServer {
  readonly links: ScriptedTransport[] = [];
  readonly handlers: Record<string, Handler>;
  /** Makes the next openings fail. */
  openFails: GatewayError | null = null;
  kind: Transport['kind'] = 'stdio';
  /** Whether TCP connections to its address succeed. */
  isThere = false;

  constructor(handlers: Record<string, Handler>) {
    this.handlers = handlers;
  }

  /** Links that are open now. */
  get live(): ScriptedTransport[] {
    return this.links.filter((link) => link.state === 'open');
  }

  get last(): ScriptedTransport {
    return this.links.at(-1)!;
  }

  /** With `isThere`, records a TCP connection, as for a server behind a URL. */
  open(kind: Transport['kind'] = this.kind, phases: PhaseTimes | null = null): ScriptedTransport {
    if (this.isThere) phases?.add('tcp', 1);
    const link = new ScriptedTransport(this, kind, this.links.length + 1);
    this.links.push(link);
    return link;
  }
}

export class ScriptedTransport implements Transport {
  readonly kind: Transport['kind'];
  readonly pid: number | null;
  readonly streamPerRequest: boolean;
  readonly number: number;
  state: 'new' | 'open' | 'ended' | 'closed' = 'new';
  closedWith: CloseReason | null = null;
  /** The reason of every close. */
  readonly closings: CloseReason[] = [];
  facts: NegotiatedFacts | null = null;
  /** Whether it listens to the server's own stream, and from which event. */
  listening = false;
  readonly listened: { readonly after: string | null; readonly gap: boolean }[] = [];
  /** The last event of that stream. */
  lastEventId: string | null = null;
  readonly seen: Seen[] = [];
  readonly lines: string[] = [];
  readonly headers: (readonly string[] | null)[] = [];
  readonly abandoned: number[] = [];
  readonly #server: ScriptedServer;
  readonly #open = new Set<number>();
  #receiver: TransportReceiver | null = null;

  constructor(server: ScriptedServer, kind: Transport['kind'], number: number) {
    this.#server = server;
    this.kind = kind;
    this.number = number;
    this.pid = kind === 'stdio' ? 1000 + number : null;
    this.streamPerRequest = kind === 'http' || kind === 'json';
  }

  async open(receiver: TransportReceiver): Promise<void> {
    if (this.#server.openFails !== null) throw this.#server.openFails;
    this.#receiver = receiver;
    this.state = 'open';
  }

  send(parts: readonly Buffer[], outgoing: Outgoing): void {
    if (this.state !== 'open') {
      if (outgoing.request > 0 && this.state === 'ended') this.lose(outgoing.request, 'NOT_SENT');
      return;
    }
    const line = Buffer.concat(parts).toString();
    this.lines.push(line);
    this.headers.push(outgoing.headers);
    const seen = JSON.parse(line) as Seen;
    this.seen.push(seen);
    if (outgoing.request > 0) this.#open.add(outgoing.request);
    queueMicrotask(() => this.#serve(seen));
  }

  abandon(request: number): void {
    this.abandoned.push(Number(this.seen.findLast(({ id }) => Number(id) % REQUEST_ID_MODULUS === request)?.id));
    this.#open.delete(request);
  }

  negotiated(facts: NegotiatedFacts): void {
    this.facts = facts;
    this.listening ||= facts.era === 'stateful' && facts.silent !== true;
  }

  listen(after: string | null, gap: boolean): void {
    this.listening = true;
    this.listened.push({ after, gap });
  }

  silence(): string | null {
    this.listening = false;
    return this.lastEventId;
  }

  stderrTail(): string {
    return `tail of ${this.number}`;
  }

  async close(how: CloseReason): Promise<void> {
    this.closedWith ??= how;
    this.closings.push(how);
    this.listening = false;
    if (this.state === 'open') this.#loseAll('UNKNOWN');
    this.state = 'closed';
  }

  // Events that tests cause.

  /** Delivers a message of the server's, on the stream of the request with that id or the common channel. */
  deliver(message: unknown, stream = 0): void {
    const bytes = Buffer.isBuffer(message)
      ? message
      : Buffer.from(typeof message === 'string' ? message : JSON.stringify(message));
    if (this.state === 'open') this.#receiver?.received(bytes, stream % REQUEST_ID_MODULUS);
  }

  respond(id: number, result: unknown): void {
    this.answer(id, { jsonrpc: '2.0', id, result });
  }

  /** Ends the request with this message. */
  answer(id: number, message: unknown): void {
    this.#open.delete(id % REQUEST_ID_MODULUS);
    this.deliver(message, this.streamPerRequest ? id : 0);
  }

  lose(
    request: number,
    outcome: 'NOT_SENT' | 'UNKNOWN',
    error = new GatewayError(outcome, 'lost by the script'),
  ): void {
    this.#open.delete(request % REQUEST_ID_MODULUS);
    this.#receiver?.lost(request % REQUEST_ID_MODULUS, error);
  }

  /** The connection ends by itself. */
  end(
    reason: ClosedReason = { kind: 'exited', code: 1, signal: null },
    outcome: 'NOT_SENT' | 'UNKNOWN' = 'UNKNOWN',
  ): void {
    if (this.state !== 'open') return;
    this.#loseAll(outcome);
    this.listening = false;
    this.state = 'ended';
    this.#receiver?.closed(reason);
  }

  sessionId(id: string): void {
    this.#receiver?.sessionId?.(id);
  }

  count(method: string): number {
    return this.seen.filter((message) => message.method === method).length;
  }

  lastOf(method: string): Seen {
    const found = this.seen.findLast((message) => message.method === method);
    if (found === undefined) throw new Error(`${method} was not sent`);
    return found;
  }

  #serve(seen: Seen): void {
    if (seen.method === undefined || typeof seen.id !== 'number') return;
    const handler = this.#server.handlers[seen.method];
    const value =
      handler === undefined ? new Refusal(-32601, 'Method not found') : handler(seen.params ?? {}, this, seen.id);
    if (value === SILENCE || this.state !== 'open') return;
    const stream = this.streamPerRequest ? seen.id : 0;
    this.#open.delete(seen.id % REQUEST_ID_MODULUS);
    if (value instanceof Refusal) {
      const { code, message, data } = value;
      this.deliver({ jsonrpc: '2.0', id: seen.id, error: { code, message, data } }, stream);
    } else this.deliver({ jsonrpc: '2.0', id: seen.id, result: value }, stream);
  }

  #loseAll(outcome: 'NOT_SENT' | 'UNKNOWN'): void {
    for (const request of [...this.#open]) this.lose(request, outcome);
  }
}

/** Handlers of a plain stateful server with these tools; `server/discover` is unknown to it. */
export function statefulServer(tools: readonly object[] = [scriptedTool('echo')]): Record<string, Handler> {
  return {
    initialize: () => ({
      protocolVersion: '2025-11-25',
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: 'scripted', version: '1' },
    }),
    'tools/list': () => ({ tools }),
    'tools/call': (params) => ({ content: [{ type: 'text', text: JSON.stringify(params.arguments ?? null) }] }),
    ping: () => ({}),
  };
}

/** Handlers of a plain stateless server with these tools; it knows no `initialize`. */
export function statelessServer(tools: readonly object[] = [scriptedTool('echo')]): Record<string, Handler> {
  return {
    'server/discover': () => ({
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
      ttlMs: 0,
      cacheScope: 'private',
    }),
    'tools/list': () => ({ resultType: 'complete', tools, ttlMs: 5000, cacheScope: 'public' }),
    'tools/call': (params) => ({
      resultType: 'complete',
      content: [{ type: 'text', text: JSON.stringify(params.arguments ?? null) }],
    }),
  };
}

/** A plain stateful server, all of whose handlers may be replaced. */
export function statefulScript(): ScriptedServer {
  return new ScriptedServer(statefulServer());
}

/** A plain stateless server, all of whose handlers may be replaced. */
export function statelessScript(): ScriptedServer {
  return new ScriptedServer(statelessServer());
}

/** A tool with what the specification requires of one. */
export function scriptedTool(name: string): {
  readonly name: string;
  readonly inputSchema: { readonly type: 'object' };
} {
  return { name, inputSchema: { type: 'object' } };
}
