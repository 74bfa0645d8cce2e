import type { PhaseTimes } from '../../http/client/phase-times.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Flow } from '../../model/exchange.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { OwnedProcess } from '../../model/ports.ts';
import type { Server, TransportKind } from '../../model/server.ts';

/**
 * Port: the message channel to one MCP server, for one connection. It transfers complete JSON-RPC messages as bytes and reads
 * only what its wire needs. All implementations pass one contract suite (`test/contracts/transport.contract.ts`).
 *
 * Lifetime: `open` once, then `send` any number of times, `close` once. It is never tied to a request or a signal.
 */
export interface Transport {
  readonly kind: TransportKind;
  /** Process id of a local process; null for others. */
  readonly pid: number | null;
  /**
   * True if every request has its own stream (HTTP), so that messages on it belong to that request. False for pipes: all
   * messages share one channel.
   */
  readonly streamPerRequest: boolean;
  /** Nothing is sent at the moment, for a reason that does not concern the server. */
  readonly silent?: boolean;
  /** Starts the process or prepares the connection pool. Rejects with GatewayError (NOT_SENT) and cleans up after itself. */
  open(receiver: TransportReceiver): Promise<void>;
  /**
   * Queues one message. Never throws or blocks; the receiver gets a request's answer by `received`, its loss by `lost` (during
   * this call if it is known at once: no connection, a full queue). Nothing is reported for a notification or an answer.
   */
  send(parts: readonly Buffer[], outgoing: Outgoing): void;
  /** The caller no longer needs this request: ends its own stream if it has one. No `lost` follows. */
  abandon(request: number): void;
  /** The request's own stream, to pause it while the client does not read; null if it has none or has ended. */
  flow?(request: number): Flow | null;
  /** Facts of the negotiated connection that the wire repeats (HTTP headers). Called once, after the handshake. */
  negotiated(facts: NegotiatedFacts): void;
  /** Last bytes of standard error, redacted, control characters escaped; empty without one. */
  stderrTail(): string;
  /** The warm connection now belongs to this client, or (null) to all. */
  adopted?(client: ClientProfile | null): void;
  /** Listens to the server's own stream (HTTP, stateful era), even if `negotiated` said not to; as `SessionMember`. */
  listen?(after: string | null, gap: boolean): void;
  /** Stops listening. Returns the id of the last event; null for none. */
  silence?(): string | null;
  /**
   * Ends the connection: deletes the HTTP session, or stops the process by the ladder. Resolves when nothing is left of it.
   * In-flight requests are reported `lost` before the call returns; after that the receiver is never called. A second call
   * waits for the same end, and speeds it up if its reason is more urgent.
   */
  close(how: CloseReason): Promise<void>;
}

/**
 * `remove`: the server or connection is no longer wanted. `shutdown`: the gateway stops. `interrupt`: at once, as for Ctrl-C
 * with nothing in flight, or if another node runs the process.
 */
export type CloseReason = 'remove' | 'shutdown' | 'interrupt';

export interface Outgoing {
  /** The gateway's request id (a positive integer, also the `id` in the bytes); 0 for notifications and answers. */
  readonly request: number;
  /** Empty for answers. */
  readonly method: string;
  /** Extra headers for HTTP wires, names and values alternating; null for none. */
  readonly headers: readonly string[] | null;
}

export interface NegotiatedFacts {
  readonly era: 'stateful' | 'stateless';
  readonly revision: string;
  /** Resume this session of the gateway's earlier process instead of the one from the handshake. */
  readonly resumeSessionId?: string;
  /** Another connection may listen to the server's own stream: this one listens only on request. */
  readonly silent?: boolean | undefined;
}

export interface TransportReceiver {
  /**
   * One complete message, exactly as the server wrote it. `request`: the gateway's request on whose own stream it arrived, 0
   * for the common channel. The receiver owns the buffer.
   */
  received(bytes: Buffer, request: number): void;
  /** The request will get no answer on this connection. `error.outcome` says whether any byte of it was sent. */
  lost(request: number, error: GatewayError): void;
  /** The server's session id became known or has changed (HTTP). */
  sessionId?(id: string): void;
  /** The server's own stream was interrupted and not replayed: notifications may have been missed (HTTP). */
  missed?(): void;
  /** The connection has ended. Requests in flight were reported `lost` before. Called at most once, not after `close`. */
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
   * The wire to use: the server's own type, or `sse` for a server of type `http` that speaks only 2024-11-05 HTTP+SSE
   * (basic/transports §Backward Compatibility).
   */
  readonly kind: TransportKind;
  /** The connection's purpose, for logs: `spare`, `shared`, `session 1f3a…`. */
  readonly label: string;
  /** Receives the request phase times of a server behind a URL; null for others. */
  readonly phases?: PhaseTimes | null;
  /** Present for a process of a node in a cluster. */
  readonly owned?: OwnedProcess;
}

/** Creates a transport that is not open yet; `app/` decides which class. Must not throw. */
export type OpenTransport = (server: Server, options: OpenTransportOptions) => Transport;
