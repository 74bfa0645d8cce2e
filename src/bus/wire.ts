/**
 * Inner port: what a messaging system must do so that a `Bus` can be built on it. Delivery is at most once, in the order of
 * publication per publisher and subject; whatever is lost is noticed above. `memory-wire.ts` and `nats/nats-wire.ts`.
 */
export interface Wire {
  readonly status: WireStatus;
  /** As `status` says, and cheap. */
  readonly connected: boolean;
  /** The longest payload it takes. */
  readonly maxPayload: number;
  /** Never blocks and never throws; dropped while there is no connection. */
  publish(subject: string, payload: Buffer, options?: WirePublishOptions): void;
  /** Resolves when all that was published before has arrived; rejects, or never settles, where the connection is lost. */
  flush(): Promise<void>;
  /**
   * `*` and `>` as in NATS. `deliver` neither blocks nor throws. `close` resolves when nothing more comes: what was under
   * way to this subscriber is delivered until then, for no other subscriber will get it.
   */
  subscribe(subject: string, deliver: (message: WireMessage) => void, queue?: string): { close(): Promise<void> };
  /** The returned function ends it. */
  onChange(listener: (change: WireChange) => void): () => void;
  /** What went over the connection since it was made; null without one. Absent where it is not counted. */
  traffic?(): WireTraffic | null;
  /** What was published is sent, then the connection ends. Idempotent. */
  close(): Promise<void>;
}

export interface WireTraffic {
  readonly messagesIn: number;
  readonly messagesOut: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

export interface WirePublishOptions {
  /** Where an answer goes; when the subject has no subscriber, a message without responders comes there at once. */
  readonly reply?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface WireMessage {
  readonly subject: string;
  readonly payload: Buffer;
  /** Empty when no answer is wanted. */
  readonly reply: string;
  /** Sent by the messaging system: the message with this reply subject had no subscriber. */
  readonly noResponders: boolean;
  /** The value of a header; null without it. */
  header(name: string): string | null;
}

export interface WireStatus {
  readonly state: 'connecting' | 'connected' | 'disconnected' | 'closed';
  readonly server: string;
  readonly version: string;
  readonly lacks: readonly string[];
  readonly lastError: string;
  readonly reconnects: number;
}

export type WireChange =
  | { readonly type: 'connected'; readonly resync: boolean }
  | { readonly type: 'disconnected'; readonly reason: string }
  | { readonly type: 'slow_consumer'; readonly subject: string };
