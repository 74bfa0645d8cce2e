import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { SseParser } from '../../src/protocol/sse-parser.ts';

/** Any JSON; tests read its members without types. */
export type Json = ReturnType<typeof JSON.parse>;

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly json: Json;
}

export interface Event {
  readonly id: string | null;
  readonly event: string | null;
  readonly data: string;
}

/** Sends one request unchanged, on a connection of its own, and returns the answer. */
export async function send(
  url: string,
  method: string,
  headers: Readonly<Record<string, string>> = {},
  body: string | Buffer | null = null,
): Promise<Reply> {
  const { response } = await open(url, method, headers, body);
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  let json: unknown = null;
  try {
    json = JSON.parse(text);
  } catch {
    // Not every answer is JSON; the test sees the text.
  }
  return { status: response.statusCode!, headers: response.headers, text, json };
}

/** Sends the request and resolves with the head of the answer, the body still to come. */
export function open(
  url: string,
  method: string,
  headers: Readonly<Record<string, string>> = {},
  body: string | Buffer | null = null,
): Promise<{ readonly response: IncomingMessage; readonly request: ClientRequest }> {
  return new Promise((resolve, reject) => {
    const req = request(url, { method, headers: { ...headers }, agent: false });
    req.on('response', (response) => resolve({ response, request: req }));
    req.on('error', reject);
    req.end(body ?? undefined);
  });
}

/** An SSE answer, event by event. */
export class EventReader {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly retries: number[] = [];
  readonly #request: ClientRequest;
  readonly #events: Event[] = [];
  readonly #waiting: ((event: Event | null) => void)[] = [];
  #ended = false;

  constructor(request: ClientRequest, response: IncomingMessage) {
    this.#request = request;
    this.status = response.statusCode!;
    this.headers = response.headers;
    const parser = new SseParser(16 * 1024 * 1024, ({ id, event, data, retryMs }) => {
      if (retryMs !== null) this.retries.push(retryMs);
      if (retryMs === null || id !== null) this.#came({ id, event, data: data.toString() });
    });
    response.on('data', (chunk: Buffer) => parser.push(chunk));
    const end = (): void => {
      this.#ended = true;
      for (const waiting of this.#waiting.splice(0)) waiting(null);
    };
    response.on('end', end);
    response.on('error', end);
    response.on('close', end);
  }

  static async open(
    url: string,
    method: string,
    headers: Readonly<Record<string, string>>,
    body: string | null = null,
  ): Promise<EventReader> {
    const { request: req, response } = await open(url, method, headers, body);
    return new EventReader(req, response);
  }

  /** The next event; null when the stream has ended. */
  next(): Promise<Event | null> {
    const event = this.#events.shift();
    if (event !== undefined) return Promise.resolve(event);
    if (this.#ended) return Promise.resolve(null);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** The message of the next event that has one. */
  async message(): Promise<Json> {
    for (;;) {
      const event = await this.next();
      if (event === null) return null;
      if (event.data !== '') return JSON.parse(event.data);
    }
  }

  async rest(): Promise<Event[]> {
    const events: Event[] = [];
    for (let event = await this.next(); event !== null; event = await this.next()) events.push(event);
    return events;
  }

  /** Drops the connection, as a client that dies. */
  drop(): void {
    this.#request.destroy();
  }

  #came(event: Event): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#events.push(event);
    else waiting(event);
  }
}
