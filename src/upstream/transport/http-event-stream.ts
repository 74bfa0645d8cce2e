import type { BodyMode, ClientRequest, ResponseHandler } from '../../http/client/client-port.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import { backoffMs } from '../../model/clock.ts';
import type { Flow } from '../../model/exchange.ts';
import { SseParser } from '../../protocol/sse-parser.ts';
import type { UrlTransport } from './http-wire.ts';

/** The position in a stream: what a reconnect presents and how long it waits. Outlives the single HTTP response. */
export interface StreamCursor {
  lastEventId: string | null;
  /** The server's `retry`; null where it named none. */
  retryMs: number | null;
}

export function newCursor(lastEventId: string | null = null): StreamCursor {
  return { lastEventId, retryMs: null };
}

/** What can be in a `Last-Event-ID` header; an id that cannot is of no use. */
const EVENT_ID = /^[^\u0000-\u001f\u007f]{1,4096}$/;

/** The events of one `text/event-stream` response: keeps the cursor and hands on what has data. */
export class HttpEvents {
  readonly #parser: SseParser;
  /** Events so far, empty ones included: whether a reconnect brought anything. */
  count = 0;

  /** `deliver` gets the data and the event's name, `message` where the server gave none. */
  constructor(cursor: StreamCursor, maxEventBytes: number, deliver: (data: Buffer, name: string) => void) {
    this.#parser = new SseParser(maxEventBytes, ({ id, retryMs, data, event }) => {
      this.count++;
      if (id !== null) cursor.lastEventId = EVENT_ID.test(id) ? id : null;
      if (retryMs !== null) cursor.retryMs = retryMs;
      if (data.length > 0) deliver(data, event ?? 'message');
    });
  }

  /** False when an event was over the limit and is dropped. */
  push(chunk: Buffer): boolean {
    return this.#parser.push(chunk);
  }
}

/** How a GET stream ended. `refused`: never opened. `ended`: by the server, in order. `wrong`: not an event stream. */
export type StreamEnd =
  | { readonly kind: 'refused'; readonly status: number; readonly headers: ResponseHeaders; readonly body: Buffer }
  | { readonly kind: 'ended' }
  | { readonly kind: 'failed'; readonly failure: HttpFailure }
  | { readonly kind: 'wrong'; readonly words: string };

const EMPTY = Buffer.alloc(0);
/** Share of a delay that chance takes away. */
const JITTER = 0.5;

/** GET of `text/event-stream`, one response after the other as the subclass opens them; each presents the cursor. */
export abstract class HttpEventStream<T extends UrlTransport> implements ResponseHandler, Flow {
  protected readonly transport: T;
  protected readonly cursor: StreamCursor;
  #events: HttpEvents | null = null;
  #running: ClientRequest | null = null;
  #wake: (() => void) | null = null;
  /** What a response that is no stream ends with. */
  #verdict: StreamEnd | null = null;
  protected aborted = false;

  constructor(transport: T, cursor: StreamCursor = newCursor()) {
    this.transport = transport;
    this.cursor = cursor;
  }

  protected opened(): void {}

  /** An event with data. `name` is `message` unless the server gave another. */
  protected abstract event(data: Buffer, name: string): void;

  /** An event over the limit was dropped. */
  protected abstract tooLarge(): void;

  /** Once for each response, unless the stream was aborted. */
  protected abstract ended(end: StreamEnd): void;

  /** Events of the last response, empty ones included. */
  protected get eventCount(): number {
    return this.#events?.count ?? 0;
  }

  open(): void {
    const { client, path, heads } = this.transport;
    const { lastEventId } = this.cursor;
    // Event ids are UTF-8 text; a header takes their bytes (as browsers send `Last-Event-ID`).
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

  /** Our own patience after so many attempts in vain, 0 for the first. */
  protected backoffMs(attempt: number): number {
    const { options, limits } = this.transport;
    const { reconnectMs: initialMs, reconnectMaxMs: maxMs } = limits;
    return backoffMs({ initialMs, maxMs, jitter: JITTER }, attempt, options.random.unit());
  }

  /** For good: nothing is called after this. */
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
