/** The connection under an SSE stream, as the streams of this room need it: what `SseWriter` offers. */
export interface EventSink {
  /** The client is gone, was cut off, or the stream was ended. */
  readonly closed: boolean;
  /** One event; `droppable` ones may be lost to a client that does not keep up. False: this one does not. */
  event(id: string | null, parts: readonly Buffer[], droppable?: boolean): boolean;
  /** How long the client shall wait before it reconnects. */
  retry(ms: number): boolean;
  /** The client keeps up again: everything held back is out. Only after `event` returned false. */
  onDrain: (() => void) | null;
  /** The client has gone, or was cut off. Not called after `end`. */
  onClose: (() => void) | null;
  /** Ends the stream after what is held back for it; idempotent. */
  end(): void;
}
