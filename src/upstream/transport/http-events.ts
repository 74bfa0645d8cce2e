import { SseParser } from '../../protocol/sse-parser.ts';

/** Where a stream stands: what a reconnect presents and how long it waits. Outlives the single HTTP response. */
export interface StreamCursor {
  lastEventId: string | null;
  /** The server's `retry`; null where it named none. */
  retryMs: number | null;
}

export function newCursor(): StreamCursor {
  return { lastEventId: null, retryMs: null };
}

/**
 * The events of one `text/event-stream` response: keeps the cursor and hands on what has data. Events of another
 * name than `message` are not messages of MCP and are handed on by name.
 */
export class HttpEvents {
  readonly #parser: SseParser;
  readonly #onEvent: (event: { id: string | null; event: string | null; data: Buffer; retryMs: number | null }) => void;
  /** Events so far, empty ones included: whether a reconnect brought anything. */
  count = 0;

  constructor(cursor: StreamCursor, maxEventBytes: number, deliver: (data: Buffer, name: string) => void) {
    this.#parser = new SseParser({ maxEventBytes });
    this.#onEvent = (event) => {
      this.count++;
      if (event.id !== null) cursor.lastEventId = event.id === '' ? null : event.id;
      if (event.retryMs !== null) cursor.retryMs = event.retryMs;
      if (event.data.length > 0) deliver(event.data, event.event ?? 'message');
    };
  }

  push(chunk: Buffer): void {
    this.#parser.push(chunk, this.#onEvent);
  }
}
