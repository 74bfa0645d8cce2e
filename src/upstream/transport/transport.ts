import type { PhaseTimes } from '../../http/client/phase-times.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Flow } from '../../model/exchange.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Server, TransportKind } from '../../model/server.ts';

/**
 * Port: the message channel to one MCP server, for one connection. It moves whole JSON-RPC messages as bytes and
 * knows nothing of their meaning beyond what its wire needs. One contract suite (`transport.contract.ts`) holds for
 * all implementations.
 *
 * Lifetime: `open` once, then `send` any number of times, `close` once. It is never tied to a request or a signal.
 */
export interface Transport {
  readonly kind: TransportKind;
  /** Process id of a local process; null for others. */
  readonly pid: number | null;
  /**
   * True where every request has a stream of its own (HTTP), so that what arrives on it belongs to that request.
   * False for pipes: all messages share one channel.
   */
  readonly streamPerRequest: boolean;
  /** Nothing is sent at the moment, for a reason that is not the server's. */
  readonly silent?: boolean;
  /** Starts the process or prepares the connection pool. Rejects with GatewayError (NOT_SENT) and cleans up after itself. */
  open(receiver: TransportReceiver): Promise<void>;
  /**
   * Queues one message. Never throws and never blocks; the fate of a request is reported to the receiver: its answer by
   * `received`, its loss by `lost` (already during this call when it is known at once: no connection, a full queue).
   * For a notification or an answer nothing is reported.
   */
  send(parts: readonly Buffer[], outgoing: Outgoing): void;
  /** The caller has no more interest in this request: ends its own stream where there is one. No `lost` follows. */
  abandon(request: number): void;
  /** The request's own stream, to make it wait while its client does not read; null where it has none any more. */
  flow?(request: number): Flow | null;
  /** Facts of the negotiated connection that the wire repeats (HTTP headers). Called once, after the handshake. */
  negotiated(facts: NegotiatedFacts): void;
  /** Last bytes of standard error, redacted, control characters escaped; empty where there is none. */
  stderrTail(): string;
  /** The warm connection is this client's from now on, or (null) shared by all. */
  adopted?(client: ClientProfile | null): void;
  /** Listens to the server's own stream (HTTP, stateful era), also where `negotiated` said not to; as `SessionMember`. */
  listen?(after: string | null, gap: boolean): void;
  /** Does not listen any more. Returns the id of the last event; null for none. */
  silence?(): string | null;
  /**
   * Ends the connection: HTTP session deleted, process stopped by the ladder. Resolves when nothing is left of it.
   * Requests in flight are reported `lost` before the call returns; from then on the receiver is never called. A second
   * call waits for the same end, and hurries it where its reason is the more urgent one.
   */
  close(how: CloseReason): Promise<void>;
}

/**
 * `remove`: the server or connection is no longer wanted. `shutdown`: the gateway stops. `interrupt`: at once, as by Ctrl-C
 * with nothing in flight, or where another node runs it.
 */
export type CloseReason = 'remove' | 'shutdown' | 'interrupt';

export interface Outgoing {
  /** Our own request id (a positive integer, also the `id` in the bytes); 0 for notifications and answers. */
  readonly request: number;
  /** Empty for answers. */
  readonly method: string;
  /** Extra header lines for HTTP wires, name and value alternating; null for none. */
  readonly headers: readonly string[] | null;
}

export interface NegotiatedFacts {
  readonly era: 'stateful' | 'stateless';
  readonly revision: string;
  /** Present the server's session of an earlier process of ours instead of the one from the handshake. */
  readonly resumeSessionId?: string;
  /** Another connection may be listening to the server's own stream: this one does when it is asked to. */
  readonly silent?: boolean | undefined;
}

export interface TransportReceiver {
  /**
   * One whole message, exactly as the server wrote it. `request` is our request on whose own stream it came, 0 when it
   * came on the connection's common channel. The buffer is the receiver's to keep.
   */
  received(bytes: Buffer, request: number): void;
  /** The request will get no answer on this connection. `error.outcome` says whether any byte of it went out. */
  lost(request: number, error: GatewayError): void;
  /** The server's session id has become known or changed (HTTP). */
  sessionId?(id: string): void;
  /** The server's own stream was down and could not be replayed: notifications may have been missed (HTTP). */
  missed?(): void;
  /** The connection is gone. Requests in flight were reported `lost` before. Called at most once, not after `close`. */
  closed(reason: ClosedReason): void;
}

/** Why a connection ended by itself; distinguished by type, never by text. */
export type ClosedReason =
  | { readonly kind: 'exited'; readonly code: number | null; readonly signal: string | null }
  | { readonly kind: 'session_lost' }
  | { readonly kind: 'auth_required'; readonly challenge: string | null; readonly status?: 403 }
  | { readonly kind: 'unreachable'; readonly error: GatewayError }
  | { readonly kind: 'protocol'; readonly error: GatewayError };

export interface OpenTransportOptions {
  /**
   * The wire to use. The server's own type, except where a server of type `http` turned out to speak 2024-11-05
   * HTTP+SSE only (basic/transports §Backward Compatibility).
   */
  readonly kind: TransportKind;
  /** What the connection is for, for logs: `spare`, `shared`, `session 1f3a…`. */
  readonly label: string;
  /** Where a server behind a URL spends its time; null for others. */
  readonly phases?: PhaseTimes | null;
}

/** Makes a transport that is not open yet; `app/` decides which class. Must not throw. */
export type OpenTransport = (server: Server, options: OpenTransportOptions) => Transport;
