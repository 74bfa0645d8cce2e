import type { CallAttempts } from './call-attempts.ts';
import type { ClientProfile } from './client-profile.ts';
import type { GatewayError } from './gateway-error.ts';
import type { Message } from './message.ts';
import type { Outcome } from './outcome.ts';
import type { Capability } from './server-catalog.ts';

/** One request of a client until its outcome. Cancellation uses `onCancel` instead of an AbortSignal, which costs a listener. */
export interface Exchange {
  /** Unique on this node; appears in logs as `request`. */
  readonly id: string;
  readonly request: Message;
  readonly client: ClientProfile;
  /** Whether the client's revision has `input_required` results. If false, the server can ask the client only with `ask`. */
  readonly takesInputRequired: boolean;
  /** Whether to seal `requestState` for the client, which binds it to the caller and identifies its server later. */
  readonly sealsInput?: boolean;
  /** `Mcp-Param-*` headers of a stateless request, by lower-case name; null or absent if the transport has none. */
  readonly paramHeaders?: Readonly<Record<string, string>> | null;
  /** The HTTP header `traceparent` of the request; absent or null without one. Read only for a tracer. */
  readonly traceHeader?: string | null;
  /** `traceparent` of the span that covers the exchange; absent if no span is recorded. */
  trace?: string | undefined;
  /** The answer may begin a task, which the client polls later. */
  readonly beginsTask?: boolean;
  /** The answer began a task, and this exchange waits for its end: the task's notifications until then belong to this call. */
  readonly waitsForTask?: boolean;
  /**
   * The resolved target: the server, and its own name of what the request names; for records of the call. `definition`: of a
   * tool that the server lists.
   */
  target?:
    | { readonly server: string; readonly name: string | GatewayError; readonly definition?: Capability | null }
    | undefined;
  /** Monotonic time at which the call was sent to its server. */
  sentAt?: number | undefined;
  /** The other node that the call was last forwarded to; absent if it stayed on this node. */
  servedBy?: string | undefined;
  /** Absent if the call needed one attempt. */
  attempts?: CallAttempts | undefined;
  /** Monotonic time at which the current call began to look for a node; its deadline counts from then. */
  searchStartedAt?: number | undefined;
  /** The part of that time spent on nodes that failed: the search for a node has a time limit of its own. */
  triedMs?: number | undefined;
  /** The call was counted by the rate limit; further attempts are not counted again. */
  counted?: boolean;
  /** The client reconnected after the node that sent the call died: the gateway looks up the outcome and sends nothing. */
  readonly returned?: boolean;
  /** Set with `returned`: a node had the outcome. */
  found?: boolean;
  /** A list of one server must come from the server itself, not from what the gateway knows of it. */
  readonly fresh?: boolean;
  /** The call is never sent: policies only say what they would decide, and count nothing. */
  readonly hypothetical?: boolean;
  readonly cancelled: string | null;
  /** Called at most once, when the caller cancels or disconnects; must not throw. */
  onCancel: ((reason: string) => void) | null;
  /** Sends a notification of this call to the client. Never blocks or throws; pauses `flow` for a slow client. */
  emit(notification: Message, flow?: Flow | null): void;
  /**
   * Sends a request to the client (sampling, elicitation, roots). Resolves with its `result` or `error`; rejects with
   * GatewayError. `likely`: the request may belong to another call, so it outlives the answer of this one.
   */
  ask(request: Message, likely?: boolean): Promise<Message>;
}

/** The stream that carries the messages of one call, if it can be paused separately (F16). */
export interface Flow {
  pause(): void;
  /** Does nothing if the stream is not paused or has ended. */
  resume(): void;
}

/** The gateway's core, as used by listeners and embedding programs. */
export interface Exchanges {
  run(exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
}

/** A client-facing virtual MCP server. */
export interface Endpoint {
  /** `aggregate`: all servers that the caller may use, under exposed names. `server`: one server, under its own names. */
  readonly kind: 'aggregate' | 'server';
  readonly server: string;
  readonly path: string;
}

export const AGGREGATE: Endpoint = { kind: 'aggregate', server: '', path: '/mcp' };

export function serverEndpoint(server: string): Endpoint {
  return { kind: 'server', server, path: `/servers/${server}/mcp` };
}

const PUBLIC_CALL = 'public ';

/** The id of an exchange for a program on the bus. It contains the reply subject, because any node may send the answer. */
export function publicCallId(reply: string): string {
  return `${PUBLIC_CALL}${reply}`;
}

/** The reply subject of the program that made the call; null for any other call. */
export function publicReplyOf({ id }: Exchange): string | null {
  return id.startsWith(PUBLIC_CALL) ? id.slice(PUBLIC_CALL.length) : null;
}
