import { eventIdOf } from '../../model/event-id.ts';
import type { Flow } from '../../model/exchange.ts';
import type { Revision } from '../../model/message.ts';
import type { EventLog, LoggedEvents } from '../../model/ports.ts';
import type { EventSink, StreamCopy, UnansweredRequest } from '../../model/stream-copies.ts';
import { notification } from '../../protocol/compose.ts';
import { oneLine } from '../../protocol/splice.ts';
import { PausedFlows } from './paused-flows.ts';

const NOTHING = Buffer.alloc(0);
export const RETRY_MS = 1_000;
const GAP =
  'Messages may be missing here: at most 5 minutes and 1 MiB of a stream are kept. Read lists and resources again.';

/**
 * One resumable SSE stream of a session. Every message is logged before it is written, and is sent on this stream only; the
 * connection may break and be replaced while the stream continues.
 */
export class LoggedStream {
  readonly name: string;
  readonly #sessionId: string;
  readonly #events: EventLog;
  readonly #copy: StreamCopy | null;
  #sink: EventSink | null = null;
  /** The last event logged, and the last one written to a connection. Null for none in this process. */
  #lastId: string | null = null;
  #seenId: string | null = null;
  #waiting: PausedFlows | null = null;
  #attempt = 0;
  #ended = false;

  /** `copy`: the replica of the stream for other nodes. */
  constructor(sessionId: string, name: string, events: EventLog, copy: StreamCopy | null = null) {
    this.#sessionId = sessionId;
    this.name = name;
    this.#events = events;
    this.#copy = copy;
  }

  get open(): boolean {
    return this.#sink?.closed === false;
  }

  /** The event after which a client without an event id resumes; null when it missed nothing. */
  get missedAfter(): string | null {
    if (this.#seenId === this.#lastId) return null;
    // Without an event that was sent: the position before the first one.
    return this.#seenId ?? eventIdOf(this.name, 0);
  }

  /** Gives the stream its first connection. */
  connect(sink: EventSink): void {
    this.#sink = sink;
  }

  /**
   * Sets the client's reconnection delay, and sends an event without data, from whose id the client can resume before any
   * other event. Clients of older revisions read an event without data as a malformed message.
   */
  begin(revision: Revision): void {
    const primes = revision === '2025-11-25';
    const id = primes ? this.mark() : null;
    if (!this.open) return;
    this.#sink!.retry(RETRY_MS);
    if (primes) this.#sink!.event(id, [NOTHING]);
  }

  /** Logs an event without data that is not sent yet, and returns its id. */
  mark(): string {
    const id = this.#log(NOTHING, null);
    this.#seenId = id;
    return id;
  }

  /**
   * `droppable`: it may be dropped if the client does not keep up. `flow` is paused until the client does. `answers`: the
   * request that the message answers.
   */
  send(message: Buffer, droppable = false, flow: Flow | null = null, answers: UnansweredRequest | null = null): void {
    if (this.#ended) return;
    const line = oneLine(message);
    const id = this.#log(line, answers);
    if (!this.open) return;
    const keepsUp = this.#sink!.event(id, [line], droppable);
    this.#seenId = id;
    if (keepsUp || flow === null || !this.open) return;
    this.#waiting ??= new PausedFlows();
    this.#waiting.pause(flow, this.#sink!);
    // A lost connection does not cancel the call: its messages continue into the log.
    this.#sink!.onClose = () => this.#waiting?.release();
  }

  /**
   * Resumes over another connection, after the event that the client names. Events logged meanwhile are replayed before the
   * connection goes live, so that no message is lost, duplicated or out of order. The newest connection wins.
   */
  async resume(sink: EventSink, afterId: string): Promise<void> {
    this.#sink?.end();
    this.#sink = null;
    // Flows that the old connection paused would not be resumed by it any more.
    this.#waiting?.release();
    const attempt = ++this.#attempt;
    let from = afterId;
    let newest: string | null;
    do {
      newest = this.#lastId;
      // An unreadable log counts as empty.
      const found = await this.#events.after(this.#sessionId, from).catch(() => null);
      if (attempt !== this.#attempt || sink.closed) return sink.end();
      if (found === null) break;
      from = replay(sink, found, from);
      // What was logged meanwhile has to be replayed too.
    } while (newest !== this.#lastId);
    this.#sink = sink;
    // A stream of an earlier process may have no event of this one.
    this.#lastId ??= from;
    this.#seenId = this.#lastId;
    if (this.#ended) sink.end();
  }

  /** No further messages. Logged events can still be replayed. */
  end(): void {
    this.#ended = true;
    this.#copy?.end();
    this.disconnect();
  }

  /** As `disconnect`, because this node drains: other nodes get each later message at once. */
  hangUp(): void {
    this.#copy?.hurry();
    this.disconnect();
  }

  /** Ends the connection. Later messages go to the log only. */
  disconnect(): void {
    this.#sink?.end();
    this.#waiting?.release();
  }

  #log(line: Buffer, answers: UnansweredRequest | null): string {
    const id = this.#events.append(this.#sessionId, this.name, line, this.#lastId);
    this.#lastId = id;
    this.#copy?.add(id, line, answers);
    return id;
  }
}

/**
 * Writes logged events, after a warning if there is a gap before them, and returns the id of the last one. Skips events
 * without data, which only mark a position.
 */
export function replay(sink: EventSink, { events, gap }: LoggedEvents, from: string): string {
  if (gap) sink.event(null, [gapWarning(GAP)]);
  let last = from;
  for (const event of events) {
    if (event.message.length > 0) sink.event(event.eventId, [event.message]);
    last = event.eventId;
  }
  return last;
}

/** Reports in a stream that messages are missing at this position; sent without an event id. */
export function gapWarning(data: string): Buffer {
  const params = JSON.stringify({ level: 'warning', logger: 'trunkline', data });
  return notification('notifications/message', params, 'stateful').bytes;
}
