/** A request whose answer a stream still has to deliver. */
export interface UnansweredRequest {
  readonly id: string;
  readonly method: string;
  /** As the client wrote it, without long parameters; absent if it is still too long. */
  readonly request?: string;
}

export interface CopiedStream {
  readonly name: string;
  readonly sessionId: string;
  /** `Principal.id` of the session's owner. */
  readonly principal: string;
  /** The unanswered requests at this moment; called for every write. Empty for a session's own stream. */
  readonly unanswered: () => readonly UnansweredRequest[];
}

/** The copy of one stream. It neither blocks nor throws; events to the client do not wait for it. */
export interface StreamCopy {
  /** Adds an event that this node logged. `answers`: the request that it answers. */
  add(eventId: string, message: Buffer, answers: UnansweredRequest | null): void;
  /** From now on, events are copied at once, because another node may continue the stream at any time. */
  hurry(): void;
  end(): void;
}

/** Copies the streams of this node to where other nodes find them after this node has left. */
export interface StreamCopies {
  begin(stream: CopiedStream): StreamCopy;
}

/** An event of a departed node. */
export interface OrphanedEvent {
  /** Null if it stands for several lost events. */
  readonly eventId: string | null;
  /** Null if it was dropped, or was too large to be copied. */
  readonly message: Buffer | null;
  /** The request that the event answered, if its message is missing. */
  readonly answers: UnansweredRequest | null;
}

/** What a departed node had sent on a stream. */
export interface OrphanedStream {
  readonly name: string;
  readonly sessionId: string;
  readonly principal: string;
  /** The events after the requested one, in order. */
  readonly events: readonly OrphanedEvent[];
  readonly unanswered: readonly UnansweredRequest[];
  /** The event of another stream that continues this one; null while no node has taken it over. */
  readonly next: string | null;
  /** Position in the copy up to which it was read, for `takeOver`. */
  readonly position: number;
}

/** `gone`: the stream's node has left, or sends nothing more on it. `none`: no node has the event. */
export type Resumed = 'served' | 'gone' | 'none';

/** Streams of other nodes, for clients that reconnect to this node with one of their event ids. */
export interface StreamsElsewhere {
  /** Whether the event belongs to a stream that began at another node, or in an earlier process of this one. */
  isElsewhere(eventId: string): boolean;
  /** Continues the stream through its node; first calls `open`, once. Returns `gone` only if that is certain. Never rejects. */
  resume(sessionId: string, afterId: string, open: () => EventSink): Promise<Resumed>;
  /** As `resume`, through any node that has the event in its log. */
  resumeAnywhere(sessionId: string, afterId: string, open: () => EventSink): Promise<boolean>;
  /** What a departed node left for this session and caller; null if nothing is known. Never rejects. */
  findOrphaned(sessionId: string, principal: string, afterId: string): Promise<OrphanedStream | null>;
  /** Makes this event of a stream of this node its continuation; false if another node was first. Never rejects. */
  takeOver(left: OrphanedStream, asEventId: string): Promise<boolean>;
}

/** The connection under an SSE stream, as `SseWriter` offers it. */
export interface EventSink {
  /** The client has disconnected or was cut off, or the stream was ended. */
  readonly closed: boolean;
  /** Sends one event; `droppable` ones may be lost to a slow client. Returns false if the client does not keep up. */
  event(id: string | null, parts: readonly Buffer[], droppable?: boolean): boolean;
  retry(ms: number): boolean;
  /** Called when the client keeps up again and everything held back is sent. Only after `event` returned false. */
  onDrain: (() => void) | null;
  onClose: (() => void) | null;
  /** Ends the stream after sending what is held back; idempotent. */
  end(): void;
}

/** A POST of an HTTP+SSE client to a node that does not have its stream. */
export interface StreamPost {
  readonly sessionId: string;
  readonly principal: string;
  /** Path of the endpoint that was posted to. */
  readonly endpoint: string;
  readonly body: Buffer;
}

/** The response to the POST: 202, or an error. */
export interface PostAnswer {
  readonly status: number;
  /** JSON-RPC error code; 0 for none. */
  readonly code: number;
  readonly text: string;
  /** Id of the request, as written; empty if unknown. */
  readonly id: string;
}
