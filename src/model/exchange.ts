import type { CallAttempts } from './call-attempts.ts';
import type { ClientProfile } from './client-profile.ts';
import type { GatewayError } from './gateway-error.ts';
import type { Message } from './message.ts';
import type { Outcome } from './outcome.ts';
import type { Capability } from './server-catalog.ts';

/** One request of a client until its outcome. Cancellation is a slot, no AbortSignal: a call needs no listener. */
export interface Exchange {
  /** Unique on this node; appears in logs as `request`. */
  readonly id: string;
  readonly request: Message;
  readonly client: ClientProfile;
  /** Whether the client's vocabulary carries `input_required` results itself. When false, `ask` is the only way. */
  readonly takesInputRequired: boolean;
  /** Whether `requestState` is sealed on its way to the client, to bind it to the caller and find its server again. */
  readonly sealsInput?: boolean;
  /** `Mcp-Param-*` headers of a stateless request by lower-case name; null or absent where the wire has none. */
  readonly paramHeaders?: Readonly<Record<string, string>> | null;
  /** The HTTP header `traceparent` of the request; absent or null where it has none. Read only for a tracer. */
  readonly traceHeader?: string | null;
  /** `traceparent` of the span that covers the exchange; absent where none is recorded. */
  trace?: string | undefined;
  /** The answer may begin a task, which is asked after later. */
  readonly beginsTask?: boolean;
  /** The answer began a task whose end is waited for here: its notifications until then belong to this call. */
  readonly waitsForTask?: boolean;
  /**
   * Where it leads, once that is known: the server, and its own name for what was named. For records of the call. `definition`:
   * of a tool that the server lists.
   */
  target?:
    | { readonly server: string; readonly name: string | GatewayError; readonly definition?: Capability | null }
    | undefined;
  /** Monotonic: when it was given to its server. */
  sentAt?: number | undefined;
  /** The other node that it was last given to; absent where it stayed here. */
  servedBy?: string | undefined;
  /** Absent for a call that needed one attempt. */
  attempts?: CallAttempts | undefined;
  /** Monotonic: when the current call began to look for a node; its deadline counts from then. */
  begunAt?: number | undefined;
  /** How much of that time was spent on nodes that failed: the search for a node has a limit of its own. */
  triedMs?: number | undefined;
  /** It was counted where calls are limited in number; it may be sent again. */
  counted?: boolean;
  /** Its client returned for the answer, after the node that had sent it died: it is looked for, and not sent again. */
  readonly returned?: boolean;
  /** A node had the outcome of that. */
  found?: boolean;
  /** It is never sent: policies are asked what they would say to it, and count nothing. */
  readonly hypothetical?: boolean;
  readonly cancelled: string | null;
  /** Called at most once when the caller cancels or is gone; must not throw. */
  onCancel: ((reason: string) => void) | null;
  /** Sends the client a notification of this call. Never blocks or throws; pauses `flow` for a slow client. */
  emit(notification: Message, flow?: Flow | null): void;
  /**
   * Asks the client (sampling, elicitation, roots). Resolves with its `result` or `error`; rejects with GatewayError.
   * `likely`: the request may not belong to this call, so that it outlives the call's answer.
   */
  ask(request: Message, likely?: boolean): Promise<Message>;
}

/** What the messages of one call arrive on, where it can wait alone (F16). */
export interface Flow {
  pause(): void;
  /** No-op for one that is not paused, or has ended. */
  resume(): void;
}

/** The gateway's core, as the edges and embedders see it. */
export interface Exchanges {
  run(exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
}

/** A client-facing virtual MCP server. */
export interface Endpoint {
  /** `aggregate`: all servers the caller may use, under exposed names. `server`: one server, its own names. */
  readonly kind: 'aggregate' | 'server';
  readonly server: string;
  readonly path: string;
}

export const AGGREGATE: Endpoint = { kind: 'aggregate', server: '', path: '/mcp' };

export function serverEndpoint(server: string): Endpoint {
  return { kind: 'server', server, path: `/servers/${server}/mcp` };
}

const PUBLIC_CALL = 'public ';

/** The id of an exchange for a program on the bus. It says where the answer goes, because any node may have to give it. */
export function publicCallId(reply: string): string {
  return `${PUBLIC_CALL}${reply}`;
}

/** Where the program waits for its answer; null where no program has made the call. */
export function publicReplyOf({ id }: Exchange): string | null {
  return id.startsWith(PUBLIC_CALL) ? id.slice(PUBLIC_CALL.length) : null;
}
