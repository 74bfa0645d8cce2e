import type { BodyMode, ClientRequest, HttpClientPort, ResponseHandler } from '../../http/client/client-port.ts';
import type { HeaderBlock } from '../../http/client/header-block.ts';
import type { HttpFailure } from '../../http/client/http-failure.ts';
import type { ResponseHeaders } from '../../http/client/response-headers.ts';
import type { Clock } from '../../model/clock.ts';
import type { Flow } from '../../model/exchange.ts';
import type { Random } from '../../model/random.ts';
import { HttpEvents, type StreamCursor } from './http-events.ts';
import type { HttpLimits } from './http-limits.ts';

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

export interface StreamOwner {
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
  readonly #owner: StreamOwner;
  readonly #events: HttpEvents;
  readonly #cursor: StreamCursor;
  #running: ClientRequest | null = null;
  #status = 0;
  #headers: ResponseHeaders | null = null;
  #body: Buffer = EMPTY;
  #wrong: string | null = null;
  #open = false;
  #over = false;

  constructor(owner: StreamOwner, cursor: StreamCursor, maxEventBytes: number) {
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
