/** The connection under an SSE stream, as the streams of this room need it: what `SseWriter` offers. */
export interface EventSink {
  /** The client is gone, was cut off, or the stream was ended. */
  readonly closed: boolean;
  /** One event; `droppable` ones may be lost to a client that does not keep up. */
  event(id: string | null, parts: readonly Buffer[], droppable?: boolean): boolean;
  /** How long the client shall wait before it reconnects. */
  retry(ms: number): boolean;
  /** Ends the stream after what is held back for it; idempotent. */
  end(): void;
}
