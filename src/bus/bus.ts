import type { GatewayError } from '../model/gateway-error.ts';
import type { WireStatus } from './wire.ts';

/**
 * Port: messaging between the nodes of a cluster. Payloads are opaque bytes. One contract suite (`bus.contract.ts`) covers every
 * messaging system below it (`Wire`).
 *
 * Every message is signed with a key of the cluster; the bus drops and counts all others. Everything is bounded: large payloads
 * go in chunks with flow control, and the bus cuts a call whose peer does not keep up (`BusEvent.slow_consumer`).
 *
 * Subjects are words of `[A-Za-z0-9_=-]` separated by dots, under `trunkline.`; `subscribe` takes `*` for one word and `>` for
 * all that follow.
 */
export interface Bus {
  /** Id of this process on the bus; new with every start. */
  readonly peer: string;
  readonly status: BusStatus;
  /** Cheap to read, unlike `status`. */
  readonly connected: boolean;
  /**
   * Publishes a hint to all subscribers, this peer included: at most once, lost in an outage, at most 512 KiB. Never blocks;
   * throws GatewayError TOO_LARGE.
   */
  publish(subject: string, payload: Payload): void;
  subscribe(subject: string, subscriber: Subscriber): Registration;
  /** Serves calls of `name` to this peer. The subject contains the peer, so a request cannot be replayed to another process. */
  serve(name: string, handler: ServingHandler, options?: ServeOptions): Registration;
  /** Sends a request that streams both ways. NOT_SENT at once if the peer does not serve it. Copies the payload. */
  call(name: string, payload: Payload, options: BusCallOptions): BusCall;
  /**
   * Call it when heartbeats are missed. Ends all calls to the peer (UNKNOWN, or NOT_SENT if it cannot have the whole request)
   * and cancels those that it made. `left`: the peer announced its leaving; a call that it has not accepted then ends NOT_SENT by
   * an answer of the peer or of the messaging system.
   */
  peerLost(peer: string, reason: string, left?: boolean): void;
  /** Listeners neither block nor throw. */
  onEvent(listener: (event: BusEvent) => void): () => void;
  /** Ends in-flight calls, answers later ones as not served, then closes. Idempotent. */
  close(): Promise<void>;
}

/** One payload, in one or several buffers. */
export type Payload = Buffer | readonly Buffer[];

/** Receives messages in order and must not block. The bus logs an error that it throws. */
export type Subscriber = (payload: Buffer, from: string, subject: string) => void;

export interface Registration {
  /** In-flight calls continue. Idempotent. */
  close(): void;
}

/** The first `answer` or `fail` ends the call; a handler that throws, rejects or resolves before that fails it. */
export type ServingHandler = (serving: BusServing) => void | Promise<void>;

export interface ServeOptions {
  /** Calls beyond it are REFUSED (OVERLOADED). Default 256. */
  readonly concurrency?: number;
}

export interface BusCallOptions {
  readonly to: string;
  /** After it, the call ends with TIMEOUT and the serving side is cancelled. */
  readonly deadlineMs: number;
  /**
   * Ends the call with TIMEOUT if the serving side sends no data for this long; the timer stops during an ask and while the call
   * is paused. With it, only the serving side enforces the deadline. Default: none.
   */
  readonly idleTimeoutMs?: number;
  /** Called in order. */
  readonly onEmit?: (payload: Buffer) => void;
  /** Answers a request of the serving side. Rejects with GatewayError if there is no answer. */
  readonly onAsk?: (payload: Buffer) => Promise<Payload>;
}

export interface BusCall {
  /** Never rejects. */
  readonly outcome: Promise<BusOutcome>;
  /** The peer has accepted the call. Short calls end without an acceptance. */
  readonly accepted: boolean;
  /** No-op once the call has ended. */
  cancel(reason: string): void;
  /** Holds back emits, asks and the outcome until `resume`; flow control then slows the serving side down. */
  pause(): void;
  resume(): void;
}

/** `GatewayError.outcome` is NOT_SENT, UNKNOWN or REFUSED. */
export type BusOutcome =
  | { readonly kind: 'result'; readonly payload: Buffer }
  | {
      readonly kind: 'failure';
      readonly error: GatewayError;
      /** Set if the serving side reported the error; otherwise the bus did. */
      readonly fromServer?: true;
    };

export interface BusServing {
  readonly payload: Buffer;
  readonly from: string;
  /** Reason of the cancellation; null if the call was not cancelled. */
  readonly cancelled: string | null;
  /** Called at most once, only before the answer. */
  onCancel: ((reason: string) => void) | null;
  /**
   * Called once, before `onCancel`: the caller has the answer, or nothing more is sent to it. `callerLost`: the calling peer is
   * gone, and may not have the answer.
   */
  onEnd: ((callerLost: boolean) => void) | null;
  /** Called when there is room again after `emit` returned false. */
  onDrain: (() => void) | null;
  /** Never blocks. Returns false if the handler must wait for `onDrain`; the bus cuts a call whose handler keeps sending. */
  emit(payload: Payload): boolean;
  /** Rejects with GatewayError. */
  ask(payload: Payload): Promise<Buffer>;
  answer(payload: Payload): void;
  fail(error: GatewayError): void;
}

export interface BusStatus extends WireStatus {
  readonly calls: number;
  readonly serving: number;
  /** Messages dropped as unsigned, replayed, outside the clock skew, or malformed. */
  readonly refused: number;
  readonly slowConsumers: number;
}

export type BusEvent =
  /** `resync`: this is a reconnect; subscribers may have missed hints and must read the state again. */
  | { readonly type: 'connected'; readonly resync: boolean }
  | { readonly type: 'disconnected'; readonly reason: string }
  /** `call`: the bus cut one call because its peer is slow; otherwise this process is the slow consumer. */
  | { readonly type: 'slow_consumer'; readonly subject: string; readonly call?: true }
  | { readonly type: 'refused'; readonly subject: string; readonly reason: string };
