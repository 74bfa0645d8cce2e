import type { Flow } from '../../model/exchange.ts';
import type { Revision } from '../../model/message.ts';
import type { EventLog } from '../../model/ports.ts';
import type { EventSink, OwedAnswer, StreamCopy } from '../../model/stream-copies.ts';
import { oneLine } from '../../protocol/splice.ts';
import { WaitingFlows } from './waiting-flows.ts';

const NOTHING = Buffer.alloc(0);
export const RETRY_MS = 1_000;

/**
 * One SSE stream of a session that a client can come back to. Every message is logged before it is written, on this
 * stream alone; the connection may break and be replaced while the stream goes on.
 */
export class LoggedStream {
  readonly name: string;
  readonly #sessionId: string;
  readonly #events: EventLog;
  readonly #copy: StreamCopy | null;
  #sink: EventSink | null = null;
  /** The last event logged, and the last one written to some connection. Null for none in this process. */
  #lastId: string | null = null;
  #seenId: string | null = null;
  #waiting: WaitingFlows | null = null;
  #attempt = 0;
  #ended = false;

  /** `copy`: what other nodes find when this one is gone. */
  constructor(sessionId: string, name: string, events: EventLog, copy: StreamCopy | null = null) {
    this.#sessionId = sessionId;
    this.name = name;
    this.#events = events;
    this.#copy = copy;
  }

  get open(): boolean {
    return this.#sink?.closed === false;
  }

  /** The event to go on after on a connection that knows none; null when nothing was missed. */
  get missedAfter(): string | null {
    return this.#seenId === this.#lastId ? null : this.#seenId;
  }

  /** Gives the stream its first connection. */
  connect(sink: EventSink): void {
    this.#sink = sink;
  }

  /**
   * Says when to come back after a break, and sends an event without content, whose id the client can come back with before
   * anything else has happened. Clients of older revisions read an event without data as a broken message.
   */
  begin(revision: Revision): void {
    const primes = revision === '2025-11-25';
    const id = primes ? this.mark() : null;
    if (!this.open) return;
    this.#sink!.retry(RETRY_MS);
    if (primes) this.#sink!.event(id, [NOTHING]);
  }

  /** An event without content that is sent to no client yet: its id. */
  mark(): string {
    const id = this.#log(NOTHING, null);
    this.#seenId = id;
    return id;
  }

  /**
   * `droppable`: the client may miss it when it does not keep up with the stream. `flow` waits until it does. `answers`: the
   * request whose answer it is.
   */
  send(message: Buffer, droppable = false, flow: Flow | null = null, answers: OwedAnswer | null = null): void {
    if (this.#ended) return;
    const line = oneLine(message);
    const id = this.#log(line, answers);
    if (!this.open) return;
    const keepsUp = this.#sink!.event(id, [line], droppable);
    this.#seenId = id;
    if (keepsUp || flow === null || !this.open) return;
    this.#waiting ??= new WaitingFlows();
    this.#waiting.wait(flow, this.#sink!);
    // A lost connection is no cancellation: the call goes on into the log.
    this.#sink!.onClose = () => this.#waiting?.release();
  }

  /**
   * Goes on over another connection, after the event the client names. What is logged meanwhile is caught up with
   * before the connection counts, so that no message is lost, doubled or out of order. The newest connection wins.
   */
  async resume(sink: EventSink, afterId: string): Promise<void> {
    this.#sink?.end();
    this.#sink = null;
    // What an ended connection held up would not be heard of from it any more.
    this.#waiting?.release();
    const attempt = ++this.#attempt;
    let from = afterId;
    for (;;) {
      // A log that cannot be read is one that has nothing.
      const found = await this.#events.after(this.#sessionId, from).catch(() => null);
      if (attempt !== this.#attempt || sink.closed) return sink.end();
      from = replay(sink, found?.events ?? [], from);
      if (found === null || this.#lastId === null || from === this.#lastId) break;
    }
    this.#sink = sink;
    this.#seenId = this.#lastId;
    if (this.#ended) sink.end();
  }

  /** Nothing more will come. What was logged can still be replayed. */
  end(): void {
    this.#ended = true;
    this.#copy?.end();
    this.hangUp();
  }

  /** Ends the connection. What comes from now on waits in the log. */
  hangUp(): void {
    this.#sink?.end();
    this.#waiting?.release();
  }

  #log(line: Buffer, answers: OwedAnswer | null): string {
    const id = this.#events.append(this.#sessionId, this.name, line);
    this.#lastId = id;
    this.#copy?.add(id, line, answers);
    return id;
  }
}

/** Writes logged events and returns the id of the last. Priming events have done their work and are left out. */
export function replay(
  sink: EventSink,
  events: readonly { readonly eventId: string; readonly message: Buffer }[],
  from: string,
): string {
  let last = from;
  for (const event of events) {
    if (event.message.length > 0) sink.event(event.eventId, [event.message]);
    last = event.eventId;
  }
  return last;
}
