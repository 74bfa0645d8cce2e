import { type ClientRequest, request as httpRequest } from 'node:http';
import type { LedgerClient } from './ledger/ledger-client.ts';

/** One event stream of a stateful client's session, read as it comes. */
export class EventStream {
  readonly status: number;
  readonly #request: ClientRequest;
  readonly #chunks: string[];

  /** The session's own stream, or, after `lastEventId`, the rest of the stream of that event. */
  static open(client: LedgerClient, lastEventId?: string): Promise<EventStream> {
    return EventStream.#send(client, 'GET', '', lastEventId);
  }

  /** The stream a tool call is answered on. */
  static call(client: LedgerClient, name: string, args: Record<string, unknown>): Promise<EventStream> {
    const body = { jsonrpc: '2.0', id: 'streamed', method: 'tools/call', params: { name, arguments: args } };
    return EventStream.#send(client, 'POST', JSON.stringify(body));
  }

  static #send(client: LedgerClient, method: string, body: string, lastEventId?: string): Promise<EventStream> {
    const headers = {
      accept: 'application/json, text/event-stream',
      'mcp-session-id': client.sessionId ?? '',
      'mcp-protocol-version': '2025-11-25',
      ...(body === '' ? {} : { 'content-type': 'application/json' }),
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    };
    return new Promise((resolve, reject) => {
      const request = httpRequest(client.url, { method, headers, agent: false });
      request.on('error', reject);
      request.on('response', (response) => {
        const chunks: string[] = [];
        response.setEncoding('utf8').on('data', (text: string) => chunks.push(text));
        response.on('error', () => {});
        resolve(new EventStream(request, response.statusCode ?? 0, chunks));
      });
      request.end(body);
    });
  }

  private constructor(request: ClientRequest, status: number, chunks: string[]) {
    this.#request = request;
    this.status = status;
    this.#chunks = chunks;
    request.on('error', () => {});
  }

  text(): string {
    return this.#chunks.join('');
  }

  /** Empty if no event had an id. */
  get lastEventId(): string {
    return [...this.text().matchAll(/^id: ?(.*)$/gm)].at(-1)?.[1] ?? '';
  }

  close(): void {
    this.#request.destroy();
  }
}
