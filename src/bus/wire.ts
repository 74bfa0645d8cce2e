/** Inner port: the messaging system under a `Bus`. At most once, in order per publisher and subject; losses are noticed above. */
export interface Wire {
  readonly status: WireStatus;
  /** Cheap. */
  readonly connected: boolean;
  readonly maxPayload: number;
  /** Never blocks or throws; dropped without a connection. Without a subscriber `reply` gets a message without responders. */
  publish(subject: string, payload: Buffer, reply?: string): void;
  /** Resolves when all that was published before has arrived; rejects or never settles if the connection is lost. */
  flush(): Promise<void>;
  /** `*` and `>` as in NATS. `deliver` neither blocks nor throws. `close` resolves when nothing more comes. */
  subscribe(subject: string, deliver: (message: WireMessage) => void, queue?: string): { close(): Promise<void> };
  onChange(listener: (change: WireChange) => void): () => void;
  /** Since the connection was made; null without one; absent if not counted. */
  traffic?(): WireTraffic | null;
  /** Sends what was published. Idempotent. */
  close(): Promise<void>;
}

export interface WireTraffic {
  readonly messagesIn: number;
  readonly messagesOut: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

export interface WireMessage {
  readonly subject: string;
  readonly payload: Buffer;
  readonly reply: string;
  /** Sent by the messaging system. */
  readonly noResponders: boolean;
  header(name: string): string | null;
}

export interface WireStatus {
  readonly state: 'connecting' | 'connected' | 'disconnected' | 'closed';
  /** Without credentials; empty for memory. */
  readonly server: string;
  /** Empty while unknown. */
  readonly version: string;
  /** For operators; empty if nothing. */
  readonly lacks: readonly string[];
  readonly lastError: string;
  readonly reconnects: number;
}

export type WireChange =
  | { readonly type: 'connected'; readonly resync: boolean }
  | { readonly type: 'disconnected'; readonly reason: string }
  | { readonly type: 'slow_consumer'; readonly subject: string };
