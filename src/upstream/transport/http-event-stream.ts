import type { BodyMode, ClientRequest, ResponseHandler } from '../../http/client/client-port.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import { backoffMs } from '../../model/clock.ts';
import type { Flow } from '../../model/exchange.ts';
import { SseParser } from '../../protocol/sse-parser.ts';
import type { UrlTransport } from './http-wire.ts';

/** Position in a stream, which a reconnect sends, and its retry delay. Outlives the single HTTP response. */
export interface StreamCursor {
  lastEventId: string | null;
  /** The server's `retry`; null if it sent none. */
  retryMs: number | null;
}

export function newCursor(lastEventId: string | null = null): StreamCursor {
  return { lastEventId, retryMs: null };
}

/** Event ids that fit into a `Last-Event-ID` header; others are ignored. */
const EVENT_ID = /^[^\u0000-\u001f\u007f]{1,4096}$/;

/** Reads the events of one `text/event-stream` response: updates the cursor and delivers events with data. */
export class HttpEvents {
  readonly #parser: SseParser;
  /** Events so far, including empty ones: shows whether a reconnect brought anything. */
  count = 0;

  /** `deliver`: gets the data and the event's name, `message` if the server sent none. */
  constructor(cursor: StreamCursor, maxEventBytes: number, deliver: (data: Buffer, name: string) => void) {
    this.#parser = new SseParser(maxEventBytes, ({ id, retryMs, data, event }) => {
      this.count++;
      if (id !== null) cursor.lastEventId = EVENT_ID.test(id) ? id : null;
      if (retryMs !== null) cursor.retryMs = retryMs;
      if (data.length > 0) deliver(data, event ?? 'message');
    });
  }

  /** False if an event exceeded the limit and was dropped. */
  push(chunk: Buffer): boolean {
    return this.#parser.push(chunk);
  }
}

/** How a GET stream ended. `refused`: not opened. `ended`: closed normally by the server. `wrong`: not an event stream. */
export type StreamEnd =
  | { readonly kind: 'refused'; readonly status: number; readonly headers: ResponseHeaders; readonly body: Buffer }
  | { readonly kind: 'ended' }
  | { readonly kind: 'failed'; readonly failure: HttpFailure }
  | { readonly kind: 'wrong'; readonly words: string };

const EMPTY = Buffer.alloc(0);
/** Largest share by which jitter shortens a delay. */
const JITTER = 0.5;

/** GET of `text/event-stream`, one response after another as the subclass opens them; each request sends the cursor. */
export abstract class HttpEventStream<T extends UrlTransport> implements ResponseHandler, Flow {
  protected readonly transport: T;
  protected readonly cursor: StreamCursor;
  #events: HttpEvents | null = null;
  #running: ClientRequest | null = null;
  #wake: (() => void) | null = null;
  /** Result of a response that is not a stream. */
  #verdict: StreamEnd | null = null;
  protected aborted = false;

  constructor(transport: T, cursor: StreamCursor = newCursor()) {
    this.transport = transport;
    this.cursor = cursor;
  }

  protected opened(): void {}

  /** An event with data. `name`: `message` unless the server sent another. */
  protected abstract event(data: Buffer, name: string): void;

  /** An event exceeded the limit and was dropped. */
  protected abstract tooLarge(): void;

  /** Called once per response, unless the stream was aborted. */
  protected abstract ended(end: StreamEnd): void;

  /** Events of the last response, including empty ones. */
  protected get eventCount(): number {
    return this.#events?.count ?? 0;
  }

  open(): void {
    const { client, path, heads } = this.transport;
    const { lastEventId } = this.cursor;
    // Event ids are UTF-8 text; the header carries their bytes (as browsers send `Last-Event-ID`).
    const id = lastEventId === null ? null : Buffer.from(lastEventId, 'utf8').toString('latin1');
    this.#wake = null;
    this.#verdict = null;
    this.#events = null;
    const headers = id === null ? [] : ['Last-Event-ID', id];
    this.#running = client.request({ method: 'GET', path, block: heads.stream, headers, body: [] }, this);
  }

  protected openIn(delayMs: number): void {
    this.#wake = this.transport.options.clock.after(delayMs, () => this.open());
  }

  /** The gateway's own back-off after this many attempts, 0 for the first. */
  protected backoffMs(attempt: number): number {
    const { options, limits } = this.transport;
    const { reconnectMs: initialMs, reconnectMaxMs: maxMs } = limits;
    return backoffMs({ initialMs, maxMs, jitter: JITTER }, attempt, options.random.unit());
  }

  /** Ends the stream for good: no method is called after this. */
  abort(): void {
    this.aborted = true;
    this.#wake?.();
    this.#running?.abort();
  }

  pause(): void {
    this.#running?.pause();
  }

  resume(): void {
    this.#running?.resume();
  }

  head(status: number, headers: ResponseHeaders): BodyMode {
    if (status !== 200) {
      this.#verdict = { kind: 'refused', status, headers, body: EMPTY };
      return 'whole';
    }
    if (headers.mediaType !== 'text/event-stream') {
      this.#verdict = { kind: 'wrong', words: `the stream has content-type ${headers.mediaType || '(none)'}` };
      return 'whole';
    }
    this.#events = new HttpEvents(this.cursor, this.transport.options.maxMessageBytes, (data, name) => {
      if (!this.aborted) this.event(data, name);
    });
    this.opened();
    return 'stream';
  }

  data(chunk: Buffer): void {
    if (this.aborted) return;
    if (this.#events === null) {
      if (this.#verdict?.kind === 'refused') this.#verdict = { ...this.#verdict, body: chunk };
    } else if (!this.#events.push(chunk) && !this.aborted) {
      this.tooLarge();
    }
  }

  end(): void {
    if (!this.aborted) this.ended(this.#verdict ?? { kind: 'ended' });
  }

  error(failure: HttpFailure): void {
    if (!this.aborted) this.ended(this.#verdict ?? { kind: 'failed', failure });
  }
}
