import type { GatewayError } from '../model/gateway-error.ts';
import type { WireStatus } from './wire.ts';

/**
 * Port: how the nodes of a cluster talk. Bytes in, bytes out: what a payload means is its users' affair. One contract
 * suite (`bus.contract.ts`) holds for every messaging system below (`Wire`).
 *
 * Everything is signed with a key of the cluster; what is not is dropped and counted. Everything is bounded: large payloads go
 * in chunks with flow control, a peer that does not keep up is cut and reported (`BusEvent.slow_consumer`).
 *
 * Subjects are words of `[A-Za-z0-9_=-]` with dots between them, under `trunkline.`; `subscribe` takes `*` for one word and
 * `>` for all that follow.
 */
export interface Bus {
  /** New with every start. */
  readonly peer: string;
  readonly status: BusStatus;
  /**
   * A hint to all subscribers, this peer included: dropped in an outage, never repeated, at most 512 KiB. Never blocks; throws
   * GatewayError TOO_LARGE.
   */
  publish(subject: string, payload: Payload): void;
  subscribe(subject: string, subscriber: Subscriber): Registration;
  /** At the subject of this name and this peer: a recording is worthless to any other process. */
  serve(name: string, handler: ServingHandler, options?: ServeOptions): Registration;
  /** One request that streams both ways until its outcome. NOT_SENT at once if the peer does not serve it. Copies the payload. */
  call(name: string, payload: Payload, options: BusCallOptions): BusCall;
  /**
   * Call it when heartbeats are missed: calls that the peer took, or that are addressed to it, end (UNKNOWN, or NOT_SENT if it
   * cannot have the whole request); what is served for it is cancelled. `left`: it announced that; a call that it had not taken
   * ends NOT_SENT by its own answer or the messaging system's.
   */
  peerLost(peer: string, reason: string, left?: boolean): void;
  /** Listeners neither block nor throw. */
  onEvent(listener: (event: BusEvent) => void): () => void;
  /** Ends calls in flight, answers later ones as not served, then closes. Idempotent. */
  close(): Promise<void>;
}

/** One payload in several pieces. */
export type Payload = Buffer | readonly Buffer[];

/** Gets messages in order and must not block. An error it throws is logged. */
export type Subscriber = (payload: Buffer, from: string, subject: string) => void;

export interface Registration {
  /** Calls being served continue. Idempotent. */
  close(): void;
}

/** Ends with the first `answer` or `fail`; a handler that throws, rejects or resolves before fails the call. */
export type ServingHandler = (serving: BusServing) => void | Promise<void>;

export interface ServeOptions {
  /** Beyond it calls are REFUSED (OVERLOADED). Default 256. */
  readonly concurrency?: number;
}

export interface BusCallOptions {
  readonly to: string;
  /** Then the call ends with TIMEOUT and is cancelled at the serving side. */
  readonly deadlineMs: number;
  /**
   * Ends the call if the serving side is silent this long, not counting its asks and emits that the caller does not take. The
   * serving side then keeps the deadline alone. Default: none.
   */
  readonly quietMs?: number;
  /** In order. */
  readonly onEmit?: (payload: Buffer) => void;
  /** Rejects with GatewayError if there is no answer. */
  readonly onAsk?: (payload: Buffer) => Promise<Payload>;
}

export interface BusCall {
  /** Never rejects. */
  readonly outcome: Promise<BusOutcome>;
  /** The peer has said so. Short calls end without. */
  readonly taken: boolean;
  /** No-op once it has ended. */
  cancel(reason: string): void;
  /** Accepts no emits; the serving side has to wait. */
  pause(): void;
  resume(): void;
}

/** `GatewayError.outcome` is NOT_SENT, UNKNOWN or REFUSED. */
export type BusOutcome =
  | { readonly kind: 'result'; readonly payload: Buffer }
  | {
      readonly kind: 'failure';
      readonly error: GatewayError;
      /** The serving side reported it; otherwise the bus did. */
      readonly fromServer?: true;
    };

export interface BusServing {
  readonly payload: Buffer;
  readonly from: string;
  /** Null while the answer is wanted. */
  readonly cancelled: string | null;
  /** Called at most once. `callerLost`: the calling peer is gone. */
  onCancel: ((reason: string, callerLost: boolean) => void) | null;
  /** After `emit` has returned false. */
  onDrain: (() => void) | null;
  /** Never blocks. False: wait for `onDrain`; a handler that goes on has the call cut. */
  emit(payload: Payload): boolean;
  /** Rejects with GatewayError. */
  ask(payload: Payload): Promise<Buffer>;
  answer(payload: Payload): void;
  fail(error: GatewayError): void;
}

export interface BusStatus extends WireStatus {
  readonly calls: number;
  readonly serving: number;
  /** Dropped: unsigned, repeated, late or malformed. */
  readonly refused: number;
  readonly slowConsumers: number;
}

export type BusEvent =
  /** `resync`: again; what is known from hints must be read again. */
  | { readonly type: 'connected'; readonly resync: boolean }
  | { readonly type: 'disconnected'; readonly reason: string }
  /** `call`: one call was cut because its other end is slow; otherwise this peer is. */
  | { readonly type: 'slow_consumer'; readonly subject: string; readonly call?: true }
  | { readonly type: 'refused'; readonly subject: string; readonly reason: string };
