import { type SseEvent, SseParser } from '../../protocol/sse-parser.ts';

/** Where a stream stands: what a reconnect presents and how long it waits. Outlives the single HTTP response. */
export interface StreamCursor {
  lastEventId: string | null;
  /** The server's `retry`; null where it named none. */
  retryMs: number | null;
}

export function newCursor(): StreamCursor {
  return { lastEventId: null, retryMs: null };
}

/** What can stand in a `Last-Event-ID` header; an id that cannot is no use to anybody. */
const EVENT_ID = /^[^\u0000-\u001f\u007f]{1,4096}$/;

/** The events of one `text/event-stream` response: keeps the cursor and hands on what has data. */
export class HttpEvents {
  readonly #parser: SseParser;
  readonly #onEvent: (event: SseEvent) => void;
  /** Events so far, empty ones included: whether a reconnect brought anything. */
  count = 0;

  /** `deliver` gets the data and the event's name, `message` where the server gave none. */
  constructor(cursor: StreamCursor, maxEventBytes: number, deliver: (data: Buffer, name: string) => void) {
    this.#parser = new SseParser({ maxEventBytes });
    this.#onEvent = (event) => {
      this.count++;
      if (event.id !== null) cursor.lastEventId = EVENT_ID.test(event.id) ? event.id : null;
      if (event.retryMs !== null) cursor.retryMs = event.retryMs;
      if (event.data.length > 0) deliver(event.data, event.event ?? 'message');
    };
  }

  /** False when an event was over the limit and is dropped. */
  push(chunk: Buffer): boolean {
    return this.#parser.push(chunk, this.#onEvent);
  }
}
