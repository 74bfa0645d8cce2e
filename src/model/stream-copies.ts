/** A request that a stream is to answer and has not. */
export interface OwedAnswer {
  readonly id: string;
  readonly method: string;
  /** As its client wrote it, without long parameters; absent if it is long all the same. */
  readonly request?: string;
}

export interface CopiedStream {
  readonly name: string;
  readonly sessionId: string;
  /** `Principal.id` of the session's owner. */
  readonly principal: string;
  /** At this moment; asked whenever something is written down. Nothing for a stream of the session's own. */
  readonly owed: () => readonly OwedAnswer[];
}

/** The copy of one stream. Nothing here blocks or throws; events to the client do not wait for it. */
export interface StreamCopy {
  /** An event that was logged here. `answers`: the request whose answer it is. */
  add(eventId: string, message: Buffer, answers: OwedAnswer | null): void;
  end(): void;
}

/** Keeps what is said on the streams of this node where the other nodes find it when this one is gone. */
export interface StreamCopies {
  begin(stream: CopiedStream): StreamCopy;
}

/** An event of a node that is gone. */
export interface LeftEvent {
  /** Null where several were lost. */
  readonly eventId: string | null;
  /** Null where it is not there any more, or never was because of its size. */
  readonly message: Buffer | null;
  /** The request whose answer it was, where that is not there. */
  readonly answers: OwedAnswer | null;
}

/** What a node that is gone had said on a stream. */
export interface LeftStream {
  readonly name: string;
  readonly sessionId: string;
  readonly principal: string;
  /** After the one that was asked for, in order. */
  readonly events: readonly LeftEvent[];
  readonly owed: readonly OwedAnswer[];
  /** The event of another stream after which it goes on; null while no node has taken it over. */
  readonly next: string | null;
  /** Of what was read, for `takeOver`. */
  readonly position: number;
}

/** `gone`: the node that had it is, or says nothing more on it. `none`: no node has the event. */
export type Resumed = 'served' | 'gone' | 'none';

/** Streams of other nodes, for clients that come to this one with one of their events. */
export interface StreamsElsewhere {
  /** Whether the event is of a stream that began at another node, or in an earlier process of this one. */
  isElsewhere(eventId: string): boolean;
  /** Continues the stream through its node; calls `open` first and once. `gone` only if certain. Never rejects. */
  resume(sessionId: string, afterId: string, open: () => EventSink): Promise<Resumed>;
  /** The same by way of any node that has the event in its log. */
  resumeAnywhere(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean>;
  /** What a node that is gone has left for this session and caller; null where nothing is known. Never rejects. */
  left(sessionId: string, principal: string, afterId: string): Promise<LeftStream | null>;
  /** It goes on after this event, of a stream of this node; false where another node was first. Never rejects. */
  takeOver(left: LeftStream, asEventId: string): Promise<boolean>;
}

/** The connection under an SSE stream, as the streams of this room need it: what `SseWriter` offers. */
export interface EventSink {
  /** The client is gone, was cut off, or the stream was ended. */
  readonly closed: boolean;
  /** One event; `droppable` ones may be lost to a client that does not keep up. False: this one does not. */
  event(id: string | null, parts: readonly Buffer[], droppable?: boolean): boolean;
  retry(ms: number): boolean;
  /** The client keeps up again: everything held back is out. Only after `event` returned false. */
  onDrain: (() => void) | null;
  onClose: (() => void) | null;
  /** Ends the stream after what is held back for it; idempotent. */
  end(): void;
}

/** What a client of HTTP+SSE posted to a node that does not have its stream. */
export interface StreamPost {
  readonly sessionId: string;
  readonly principal: string;
  /** Path of the endpoint that was posted to. */
  readonly endpoint: string;
  readonly body: Buffer;
}

/** How the POST is answered: 202, or an error. */
export interface PostAnswer {
  readonly status: number;
  /** Of the JSON-RPC error; 0 for none. */
  readonly code: number;
  readonly text: string;
  /** Of the request, as written; empty where it is not known. */
  readonly id: string;
}
