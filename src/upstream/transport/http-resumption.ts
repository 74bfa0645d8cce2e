import type { Flow } from '../../model/exchange.ts';
import { isAnswer } from './http-answer.ts';
import { HttpEventStream, type StreamDeps, type StreamEnd, type StreamOwner } from './http-event-stream.ts';
import type { StreamCursor } from './http-events.ts';
import { reconnectDelayMs } from './http-limits.ts';

/** How the polling of a broken reply stream ended. */
export type ResumptionEnd =
  | { readonly kind: 'answered' }
  | { readonly kind: 'too_large' }
  | { readonly kind: 'refused'; readonly status: number; readonly words: string; readonly cause?: unknown }
  | { readonly kind: 'given_up'; readonly words: string; readonly cause?: unknown };

export interface ResumptionOwner {
  resumed(request: number, bytes: Buffer): void;
  resumptionEnded(request: number, end: ResumptionEnd): void;
}

/** Least time between two polls that both brought something, whatever the server's `retry` says. */
const MIN_POLL_MS = 20;

/**
 * The rest of one reply stream whose connection ended before the answer: fetched by GET with `Last-Event-ID`, as
 * often as the server closes again (2025-11-25, resumability; servers may close at will and expect this polling).
 * The server's `retry` is respected. It is given up when several reconnects in a row do not lead to a stream; how
 * long all of it may take is the caller's deadline, by `abort`.
 */
export class HttpResumption implements StreamOwner, Flow {
  readonly #owner: ResumptionOwner;
  readonly #deps: StreamDeps;
  readonly #request: number;
  readonly #cursor: StreamCursor;
  #stream: HttpEventStream | null = null;
  #wake: (() => void) | null = null;
  /** Reconnects in a row without a stream, and without an event. */
  #failures = 0;
  #barren = 0;
  #polls = 0;
  #over = false;

  constructor(owner: ResumptionOwner, deps: StreamDeps, request: number, cursor: StreamCursor) {
    this.#owner = owner;
    this.#deps = deps;
    this.#request = request;
    this.#cursor = cursor;
    this.#later();
  }

  abort(): void {
    this.#over = true;
    this.#wake?.();
    this.#stream?.abort();
  }

  pause(): void {
    this.#stream?.pause();
  }

  resume(): void {
    this.#stream?.resume();
  }

  opened(): void {
    this.#failures = 0;
  }

  event(stream: HttpEventStream, data: Buffer, name: string): void {
    if (this.#over || name !== 'message') return;
    const last = isAnswer(data);
    this.#owner.resumed(this.#request, data);
    if (!last || this.#over) return;
    stream.abort();
    this.#end({ kind: 'answered' });
  }

  tooLarge(stream: HttpEventStream): void {
    stream.abort();
    this.#end({ kind: 'too_large' });
  }

  ended(stream: HttpEventStream, end: StreamEnd): void {
    this.#stream = null;
    if (this.#over) return;
    if (end.kind === 'refused' && end.status < 500 && end.status !== 429) {
      const words = `the reply stream broke off and could not be resumed (mcp http status ${end.status})`;
      this.#end({ kind: 'refused', status: end.status, words });
      return;
    }
    if (end.kind === 'wrong') {
      this.#end({ kind: 'given_up', words: `the reply stream broke off and ${end.words}` });
      return;
    }
    this.#barren = stream.eventCount > 0 ? 0 : this.#barren + 1;
    if (end.kind === 'ended' || ++this.#failures < this.#deps.limits.resumeAttempts) {
      this.#later();
      return;
    }
    const words = `the reply stream broke off and ${this.#failures} reconnects failed`;
    this.#end({ kind: 'given_up', words, cause: end.kind === 'failed' ? end.failure : undefined });
  }

  #later(): void {
    const { clock, limits, random, client, path, block, maxMessageBytes } = this.#deps;
    const ownMs = this.#barren === 0 ? MIN_POLL_MS : reconnectDelayMs(limits, this.#barren - 1, random.unit());
    const delayMs = Math.max(this.#cursor.retryMs ?? (this.#polls === 0 ? 0 : limits.reconnectMs), ownMs);
    this.#polls++;
    this.#wake = clock.after(delayMs, () => {
      this.#wake = null;
      this.#stream = new HttpEventStream(this, this.#cursor, maxMessageBytes);
      this.#stream.start(client, path, block());
    });
  }

  #end(end: ResumptionEnd): void {
    this.#over = true;
    this.#owner.resumptionEnded(this.#request, end);
  }
}
