import { HttpEventStream, type StreamDeps, type StreamEnd, type StreamOwner } from './http-event-stream.ts';
import { newCursor, type StreamCursor } from './http-events.ts';
import { reconnectDelayMs } from './http-limits.ts';

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
export class HttpListening implements StreamOwner {
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
