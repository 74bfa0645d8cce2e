import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import type { EventLog } from '../../model/ports.ts';
import type { EventSink, StreamCopies } from '../../model/stream-copies.ts';
import type { Wires } from '../../model/wire-tap.ts';
import { askClient, notificationTo } from './asking.ts';
import type { ClientSession, SessionChannel } from './client-session.ts';
import { LoggedStream } from './logged-stream.ts';

export interface StandaloneDeps {
  readonly clock: Clock;
  readonly events: EventLog;
  /** Part of the ids of asks and of the names of streams; new with every process. */
  readonly prefix: string;
  readonly wires: Wires;
  /** Absent without other nodes. */
  readonly copies?: StreamCopies | undefined;
}

/** A stream that is to continue one of a failed node, after the event `startId`. */
export interface Successor {
  readonly stream: LoggedStream;
  readonly startId: string;
  /** It continues no stream after all: no message may be sent on it. */
  abandon(): void;
}

/** GET streams that one session may hold open; another one ends the oldest. */
const MAX_OPEN = 4;
/** Messages for a session that opened no stream within this time are dropped: its client is unlikely to open one. */
const FIRST_STREAM_MS = 60_000;

/**
 * The GET streams of a session (2025-11-25 transports, "Listening for Messages from the Server"). Clients open more than
 * one, by mistake or because their first one died unnoticed. Another one is therefore not refused, and does not replace the
 * first: each message goes to one stream only, the youngest that is open. Without an open stream, messages wait in the log
 * for the next one.
 */
export class StandaloneStreams implements SessionChannel {
  readonly #session: ClientSession;
  readonly #deps: StandaloneDeps;
  #streams: LoggedStream[] = [];
  #joined = false;

  constructor(session: ClientSession, deps: StandaloneDeps) {
    this.#session = session;
    this.#deps = deps;
  }

  get open(): boolean {
    return this.#streams.some((stream) => stream.open);
  }

  /** Whether a client had a stream open, and has none now. */
  get disconnected(): boolean {
    return this.#joined && !this.open;
  }

  /** Connects a client that names no event to resume from. */
  connect(sink: EventSink): void {
    this.#joined = true;
    this.#closeDisconnected();
    const waiting = this.#streams.at(-1);
    if (waiting !== undefined && !waiting.open) {
      const missed = waiting.missedAfter;
      if (missed === null) this.#begin(waiting, sink);
      else void waiting.resume(sink, missed);
      return;
    }
    this.#begin(this.#next(), sink);
  }

  /** Connects a client that resumes after an event of the stream of this name. */
  resume(name: string, sink: EventSink, afterId: string): Promise<void> {
    this.#joined = true;
    let stream = this.#streams.find((known) => known.name === name);
    if (stream === undefined) {
      this.#closeDisconnected();
      stream = this.#add(name);
    }
    return stream.resume(sink, afterId);
  }

  successor(): Successor {
    this.#closeDisconnected();
    const stream = this.#next();
    const abandon = (): void => {
      this.#streams = this.#streams.filter((other) => other !== stream);
      stream.end();
    };
    return { stream, startId: stream.mark(), abandon };
  }

  deliver(notification: Message, server?: string): void {
    const bytes = notificationTo(this.#session, null, notification, this.#deps.wires, server);
    // Not droppable: a client must learn that it need not answer.
    if (bytes !== null) this.#send(bytes, notification.method !== 'notifications/cancelled');
  }

  ask(request: Message, server?: string): Promise<Message> {
    if (!this.open) return Promise.reject(noStream());
    return askClient(this.#session, null, request, this.#deps, (message) => this.#send(message), server);
  }

  sendCancellation(cancellation: Buffer): void {
    this.#send(cancellation);
  }

  close(): void {
    for (const stream of this.#streams) stream.end();
  }

  /** As `disconnect`, because this node drains. */
  hangUp(): void {
    for (const stream of this.#streams) stream.hangUp();
  }

  /** Ends the connections. Messages from now on wait in the log for clients that reconnect. */
  disconnect(): void {
    for (const stream of this.#streams) stream.disconnect();
  }

  #send(message: Buffer, droppable = false): void {
    let stream = this.#streams.findLast((candidate) => candidate.open) ?? this.#streams.at(-1);
    if (stream === undefined) {
      if (this.#deps.clock.wall() - this.#session.createdAt > FIRST_STREAM_MS) return;
      stream = this.#next();
      // The position before the first message, from which the first connection resumes.
      stream.mark();
    }
    stream.send(message, droppable);
  }

  /** Adds a stream; at the limit it ends the oldest. */
  #add(name: string): LoggedStream {
    if (this.#streams.length >= MAX_OPEN) this.#streams.shift()!.end();
    const { id: sessionId, client } = this.#session;
    const { events, copies, prefix } = this.#deps;
    // A stream of an earlier process is not replicated: other nodes do not look for its name at this process.
    const own = name.startsWith(this.#session.streamHead('g') + prefix);
    const about = { name, sessionId, principal: client.principal.id, unanswered: () => [] };
    const stream = new LoggedStream(sessionId, name, events, own ? (copies?.begin(about) ?? null) : null);
    this.#streams.push(stream);
    return stream;
  }

  #next(): LoggedStream {
    return this.#add(this.#session.nextStream(this.#deps.prefix, 'g'));
  }

  #begin(stream: LoggedStream, sink: EventSink): void {
    stream.connect(sink);
    stream.begin(this.#session.client.revision);
  }

  /** Ends disconnected streams, except the youngest, on which messages wait for the client. */
  #closeDisconnected(): void {
    const last = this.#streams.at(-1);
    this.#streams = this.#streams.filter((stream) => {
      const kept = stream.open || stream === last;
      if (!kept) stream.end();
      return kept;
    });
  }
}

/** The error for a request of a server to a client that cannot get it. */
export function noStream(): GatewayError {
  return new GatewayError('MISSING_CAPABILITY', 'the client has no open stream to receive requests on');
}
