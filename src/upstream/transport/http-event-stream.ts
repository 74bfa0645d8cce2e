import type { BodyMode, ClientRequest, HttpClientPort, ResponseHandler } from '../../http/client/client-port.ts';
import type { HeaderBlock } from '../../http/client/header-block.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import type { Clock } from '../../model/clock.ts';
import type { Flow } from '../../model/exchange.ts';
import type { Random } from '../../model/random.ts';
import { type SseEvent, SseParser } from '../../protocol/sse-parser.ts';
import { type HttpLimits, reconnectDelayMs } from './http-wire.ts';

/** The position in a stream: what a reconnect presents and how long it waits. Outlives the single HTTP response. */
export interface StreamCursor {
  lastEventId: string | null;
  /** The server's `retry`; null where it named none. */
  retryMs: number | null;
}

export function newCursor(): StreamCursor {
  return { lastEventId: null, retryMs: null };
}

/** What can be in a `Last-Event-ID` header; an id that cannot is of no use. */
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

/** What the keepers of streams (listening, resumption) are built from. */
export interface StreamDeps {
  readonly client: HttpClientPort;
  readonly path: string;
  readonly block: () => HeaderBlock;
  readonly clock: Clock;
  readonly random: Random;
  readonly limits: HttpLimits;
  readonly maxMessageBytes: number;
}

/** How a GET stream ended. `refused`: never opened. `ended`: by the server, in order. `wrong`: not an event stream. */
export type StreamEnd =
  | { readonly kind: 'refused'; readonly status: number; readonly headers: ResponseHeaders; readonly body: Buffer }
  | { readonly kind: 'ended' }
  | { readonly kind: 'failed'; readonly failure: HttpFailure }
  | { readonly kind: 'wrong'; readonly words: string };

export interface EventStreamOwner {
  opened(stream: HttpEventStream): void;
  /** An event with data. `name` is `message` unless the server gave another. */
  event(stream: HttpEventStream, data: Buffer, name: string): void;
  /** An event over the limit was dropped. */
  tooLarge(stream: HttpEventStream): void;
  /** Once, unless the stream was aborted. */
  ended(stream: HttpEventStream, end: StreamEnd): void;
}

const EMPTY = Buffer.alloc(0);

/** One GET of `text/event-stream`: a single HTTP response, without any reconnecting. The cursor outlives it. */
export class HttpEventStream implements ResponseHandler, Flow {
  readonly #owner: EventStreamOwner;
  readonly #events: HttpEvents;
  readonly #cursor: StreamCursor;
  #running: ClientRequest | null = null;
  #status = 0;
  #headers: ResponseHeaders | null = null;
  #body: Buffer = EMPTY;
  #wrong: string | null = null;
  #open = false;
  #over = false;

  constructor(owner: EventStreamOwner, cursor: StreamCursor, maxEventBytes: number) {
    this.#owner = owner;
    this.#cursor = cursor;
    this.#events = new HttpEvents(cursor, maxEventBytes, (data, name) => {
      if (!this.#over) owner.event(this, data, name);
    });
  }

  /** Events of this response, empty ones included. */
  get eventCount(): number {
    return this.#events.count;
  }

  start(client: HttpClientPort, path: string, block: HeaderBlock): void {
    const { lastEventId } = this.#cursor;
    const headers = lastEventId === null ? [] : ['Last-Event-ID', encodeEventId(lastEventId)];
    this.#running = client.request({ method: 'GET', path, block, headers, body: [] }, this);
  }

  abort(): void {
    this.#over = true;
    this.#running?.abort();
  }

  pause(): void {
    this.#running?.pause();
  }

  resume(): void {
    this.#running?.resume();
  }

  head(status: number, headers: ResponseHeaders): BodyMode {
    this.#status = status;
    this.#headers = headers;
    if (status !== 200) return 'whole';
    if (headers.mediaType !== 'text/event-stream') {
      this.#wrong = `the stream has content-type ${headers.mediaType || '(none)'}`;
      return 'whole';
    }
    this.#open = true;
    this.#owner.opened(this);
    return 'stream';
  }

  data(chunk: Buffer): void {
    if (this.#over) return;
    if (!this.#open) {
      this.#body = chunk;
      return;
    }
    if (!this.#events.push(chunk) && !this.#isOver()) this.#owner.tooLarge(this);
  }

  end(): void {
    if (!this.#over) this.#finish(this.#refusal() ?? { kind: 'ended' });
  }

  error(failure: HttpFailure): void {
    if (!this.#over) this.#finish(this.#refusal() ?? { kind: 'failed', failure });
  }

  /** The owner may have aborted while events were handed out. */
  #isOver(): boolean {
    return this.#over;
  }

  #refusal(): StreamEnd | null {
    if (this.#wrong !== null) return { kind: 'wrong', words: this.#wrong };
    if (this.#open || this.#headers === null) return null;
    return { kind: 'refused', status: this.#status, headers: this.#headers, body: this.#body };
  }

  #finish(end: StreamEnd): void {
    this.#over = true;
    this.#owner.ended(this, end);
  }
}

/** Event ids are UTF-8 text; a header takes their bytes (as browsers send `Last-Event-ID`). */
function encodeEventId(id: string): string {
  return Buffer.from(id, 'utf8').toString('latin1');
}

export interface ListeningOwner {
  /** A message of the server's own, on no request's stream. */
  heard(bytes: Buffer): void;
  /** The stream is back, but what was said meanwhile could not be replayed. */
  missed(): void;
  /** The server refused the stream with a status that may concern the whole connection (400, 401, 404). */
  doubtful(status: number, challenge: string | null): void;
}

/** A stream this long without a message still counts as a working one for the back-off. */
const SETTLED_MS = 10_000;
/** The server's `retry` is taken at its word, but not for more than this; less so when nothing ever comes of it. */
const MIN_RETRY_MS = 20;
const BARREN_RETRY_MS = 1_000;
const IMPATIENT_ATTEMPTS = 3;

/**
 * The stateful era's GET stream: what the server says outside any request (2025-11-25, listening for messages). A
 * server that offers none (405, or anything else that is no stream) is left alone. A lost stream comes back with the
 * last event id after the server's `retry`, or with back-off; for as long as the connection lives, for there is no
 * harm in waiting and nothing else would bring it back.
 */
export class HttpListening implements EventStreamOwner {
  readonly #owner: ListeningOwner;
  readonly #deps: StreamDeps;
  readonly #cursor: StreamCursor = newCursor();
  #stream: HttpEventStream | null = null;
  #wake: (() => void) | null = null;
  #attempt = 0;
  #openedAt = 0;
  #wasOpen = false;
  readonly #gap: boolean;
  #closed = false;

  /** `after`: the last event that another listener has heard; `gap`: what came since the other one is not known. */
  constructor(owner: ListeningOwner, deps: StreamDeps, after: string | null = null, gap = false) {
    this.#owner = owner;
    this.#deps = deps;
    this.#cursor.lastEventId = after;
    this.#gap = gap;
  }

  get lastEventId(): string | null {
    return this.#cursor.lastEventId;
  }

  open(): void {
    if (this.#closed || this.#stream !== null) return;
    const { client, path, block, maxMessageBytes } = this.#deps;
    this.#stream = new HttpEventStream(this, this.#cursor, maxMessageBytes);
    this.#stream.start(client, path, block());
  }

  close(): void {
    this.#closed = true;
    this.#wake?.();
    this.#stream?.abort();
    this.#stream = null;
  }

  opened(): void {
    this.#openedAt = this.#deps.clock.now();
    const replayed = this.#cursor.lastEventId !== null;
    if ((this.#wasOpen || this.#gap) && !replayed) this.#owner.missed();
    this.#wasOpen = true;
  }

  event(_stream: HttpEventStream, data: Buffer, name: string): void {
    if (name !== 'message') return;
    this.#attempt = 0;
    this.#owner.heard(data);
  }

  /** Whatever it was, it is gone. */
  tooLarge(): void {
    this.#owner.missed();
  }

  ended(_stream: HttpEventStream, end: StreamEnd): void {
    this.#stream = null;
    if (this.#closed) return;
    if (end.kind === 'refused' && !isTransient(end.status)) {
      this.#closed = true;
      const { status, headers } = end;
      if (status === 400 || status === 401 || status === 404) {
        this.#owner.doubtful(status, headers.get('www-authenticate') ?? null);
      }
      return;
    }
    if (end.kind === 'wrong' && !this.#wasOpen) return;
    if (end.kind !== 'refused' && this.#deps.clock.now() - this.#openedAt >= SETTLED_MS) this.#attempt = 0;
    this.#later();
  }

  #later(): void {
    const { clock, limits, random } = this.#deps;
    const ownMs = reconnectDelayMs(limits, this.#attempt, random.unit());
    const { retryMs } = this.#cursor;
    const leastMs = this.#attempt < IMPATIENT_ATTEMPTS ? MIN_RETRY_MS : Math.min(ownMs, BARREN_RETRY_MS);
    const delayMs = retryMs === null ? ownMs : Math.max(retryMs, leastMs);
    this.#attempt++;
    this.#wake = clock.after(delayMs, () => {
      this.#wake = null;
      this.open();
    });
  }
}

/** Statuses that say nothing about whether the server has such a stream. 409: it believes that it is open elsewhere. */
function isTransient(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || (status >= 500 && status !== 501);
}
