import type { GatewayError } from '../model/gateway-error.ts';

/**
 * Port: how the nodes of a cluster talk. Bytes in, bytes out: what a payload means is its users' affair. One contract
 * suite (`bus.contract.ts`) holds for every messaging system below (`Wire`).
 *
 * Everything is signed with a key of the cluster; what is not is dropped and counted. Everything is
 * bounded: large payloads go in chunks with flow control, queues have a limit, a peer that does not keep up is cut and
 * reported (`BusEvent.slow_consumer`).
 *
 * Subjects are words of `[A-Za-z0-9_=-]` with dots between them, under `trunkline.`; `subscribe` takes `*` for one word and
 * `>` for all that follow.
 */
export interface Bus {
  /** Who we are on the bus: 16 hexadecimal digits, new with every start of a process. */
  readonly peer: string;
  readonly status: BusStatus;
  /**
   * Publishes to all subscribers, this peer included; there may be none. A hint and nothing more: accepted and dropped in
   * an outage, never repeated, at most 512 KiB. Never blocks; throws GatewayError TOO_LARGE.
   */
  publish(subject: string, payload: Payload): void;
  subscribe(subject: string, subscriber: Subscriber, options?: SubscribeOptions): Registration;
  /** Takes the calls on a subject. Without a queue group every peer that serves it gets every call: name the peer in it. */
  serve(subject: string, handler: ServingHandler, options?: ServeOptions): Registration;
  /**
   * One request that streams both ways until its one outcome. With no peer serving the subject it is NOT_SENT at once.
   * The payload is copied before this returns.
   */
  call(subject: string, payload: Payload, options: BusCallOptions): BusCall;
  /**
   * To be called when a peer is gone, by its heartbeats: calls that it took, or that are addressed to it, end at
   * once (UNKNOWN, or NOT_SENT where it cannot have had all of the request); what is served for it is cancelled. `left`: it
   * said so itself. A call that it has not taken then is not lost: it, or the messaging system when it is gone, says at once
   * that it is not served (NOT_SENT).
   */
  peerLost(peer: string, reason: string, left?: boolean): void;
  /** The returned function ends it. Listeners neither block nor throw. */
  onEvent(listener: (event: BusEvent) => void): () => void;
  /** Ends what is in flight, answers later calls as not served, then ends the connection. Idempotent. */
  close(): Promise<void>;
}

/** Several pieces are one payload; they need not be put together before. */
export type Payload = Buffer | readonly Buffer[];

/** May return a promise: the next message waits for it, in a bounded queue. */
export type Subscriber = (payload: Buffer, from: string, subject: string) => void | Promise<void>;

export interface SubscribeOptions {
  /** Only one subscriber of each queue group gets a message. */
  readonly queue?: string;
  /** Messages were dropped because the subscriber did not keep up: what it knows from them is to be read anew. */
  readonly onDropped?: (count: number) => void;
}

export interface Registration {
  /** Nothing new comes; calls that are being served go on. Idempotent. */
  close(): void;
}

/**
 * Serves one call. It ends with the first `answer` or `fail`; a handler that throws or rejects fails it, and so does one
 * whose promise resolves before the call has ended.
 */
export type ServingHandler = (serving: BusServing) => void | Promise<void>;

export interface ServeOptions {
  /** One member of the group gets a call. Such calls are handed over in two steps, see `BusCallOptions.to`. */
  readonly queue?: string;
  /** Calls at once; others are REFUSED (OVERLOADED). Default 256. */
  readonly concurrency?: number;
}

export interface BusCallOptions {
  /**
   * The peer that serves the subject. Null: the first of a queue group that answers, and only then the call is handed
   * over; costs one more round trip, and everything up to there is NOT_SENT.
   */
  readonly to: string | null;
  /** What is left of the caller's time. When it has run out the call ends with TIMEOUT and is cancelled at the serving side. */
  readonly deadlineMs: number;
  /**
   * The call ends, as at its deadline, when nothing has been heard of the serving side for so long. What it asks, and what the
   * caller does not take, stops that clock. The serving side does not know it, and alone keeps the deadline then. Default: no
   * bound but the deadline.
   */
  readonly quietMs?: number;
  /** What the serving side emits, in order. */
  readonly onEmit?: (payload: Buffer) => void;
  /** What the serving side asks; rejects with GatewayError where that cannot be answered. */
  readonly onAsk?: (payload: Buffer) => Promise<Payload>;
}

/** The caller's end of a call. */
export interface BusCall {
  /** Never rejects. */
  readonly outcome: Promise<BusOutcome>;
  /** The peer that has taken it; null until that is known. Short calls are answered without. */
  readonly takenBy: string | null;
  /** Ends the call with CANCELLED and tells its server. No-op once it has ended. */
  cancel(reason: string): void;
  /** Takes no more emits for the moment; what is under way stays bounded, and the serving side is made to wait. */
  pause(): void;
  resume(): void;
}

/** RESULT, or one of NOT_SENT, UNKNOWN, REFUSED: `GatewayError.outcome`. */
export type BusOutcome =
  | { readonly kind: 'result'; readonly payload: Buffer }
  | {
      readonly kind: 'failure';
      readonly error: GatewayError;
      /** The serving side said so; otherwise it is what the bus itself knows of the call. */
      readonly fromServer?: true;
    };

/** The serving end of a call. */
export interface BusServing {
  readonly subject: string;
  readonly payload: Buffer;
  /** The calling peer. */
  readonly from: string;
  /** What was left of the caller's time when the request came. The call is cancelled when it has run out. */
  readonly deadlineMs: number;
  /** Why the answer is not wanted any more; null while it is. */
  readonly cancelled: string | null;
  /** Called at most once. `callerLost`: the calling peer is gone. */
  onCancel: ((reason: string, callerLost: boolean) => void) | null;
  /** Called when `emit` has returned false and there is room again. */
  onDrain: (() => void) | null;
  /**
   * Never blocks. False: the caller does not keep up, wait for `onDrain`; a handler that goes on regardless has the call
   * cut.
   */
  emit(payload: Payload): boolean;
  /** Rejects with GatewayError when the caller cannot be asked, or the call ends before it has answered. */
  ask(payload: Payload): Promise<Buffer>;
  answer(payload: Payload): void;
  fail(error: GatewayError): void;
}

export interface BusStatus {
  readonly state: 'connecting' | 'connected' | 'disconnected' | 'closed';
  /** Address of the server, without credentials; empty for the memory of this process. */
  readonly server: string;
  /** Of the server's software; empty while unknown. */
  readonly version: string;
  /** What the server lacks of what a cluster needs, in words for operators; empty when all is there. */
  readonly lacks: readonly string[];
  readonly lastError: string;
  readonly reconnects: number;
  readonly calls: number;
  readonly serving: number;
  /** Messages that were dropped because they were not signed by this cluster, came twice, too late, or in shreds. */
  readonly refused: number;
  readonly slowConsumers: number;
}

export type BusEvent =
  /** For the first time, or again (`resync`): then whatever is known from hints may be out of date, and is read anew. */
  | { readonly type: 'connected'; readonly resync: boolean }
  | { readonly type: 'disconnected'; readonly reason: string }
  /** `call`: one call was cut because its other end does not keep up; otherwise it is this peer that does not. */
  | { readonly type: 'slow_consumer'; readonly subject: string; readonly dropped: number; readonly call?: true }
  | { readonly type: 'refused'; readonly subject: string; readonly reason: string };
