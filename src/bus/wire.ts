/** Inner port: the messaging system below a `Bus`. Delivers at most once, in order per publisher and subject. */
export interface Wire {
  readonly status: WireStatus;
  /** Cheap to read, unlike `status`. */
  readonly connected: boolean;
  readonly maxPayload: number;
  /** Never blocks or throws; drops the message without a connection. Without a subscriber, `reply` gets a no-responders reply. */
  publish(subject: string, payload: Buffer, reply?: string): void;
  /** Resolves when the server has all earlier messages; rejects or never settles if the connection is lost. */
  flush(): Promise<void>;
  /** `*` and `>` as in NATS. `deliver` neither blocks nor throws. `close` resolves after the last delivery. */
  subscribe(subject: string, deliver: (message: WireMessage) => void, queue?: string): { close(): Promise<void> };
  onChange(listener: (change: WireChange) => void): () => void;
  /** Totals of the current connection; null before the first one; absent if the wire does not count. */
  traffic?(): WireTraffic | null;
  /** Flushes published messages first. Idempotent. */
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
  /** The messaging system sent this reply, because no subscriber matched. */
  readonly noResponders: boolean;
  header(name: string): string | null;
}

export interface WireStatus {
  readonly state: 'connecting' | 'connected' | 'disconnected' | 'closed';
  /** Address without credentials; empty without a connection and for memory. */
  readonly server: string;
  /** Version of the server; empty while unknown. */
  readonly version: string;
  /** What the server lacks, as messages for operators. */
  readonly lacks: readonly string[];
  readonly lastError: string;
  readonly reconnects: number;
}

export type WireChange =
  | { readonly type: 'connected'; readonly resync: boolean }
  | { readonly type: 'disconnected'; readonly reason: string }
  | { readonly type: 'slow_consumer'; readonly subject: string };
