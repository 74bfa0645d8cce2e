import type { ClientProfile } from './client-profile.ts';
import type { Message } from './message.ts';
import type { Outcome } from './outcome.ts';

/**
 * One request of a client on its way through, with everything that may happen until its outcome. The neutral
 * thing between the eras: the edge towards the client makes it, the edge towards the server serves it.
 *
 * Cancellation is a slot, not an AbortSignal: one call in flight costs no listener, no closure of ours.
 */
export interface Exchange {
  /** Unique on this node; appears in logs as `request`. */
  readonly id: string;
  readonly request: Message;
  readonly client: ClientProfile;
  /** Whether the client's vocabulary carries `input_required` results itself. When false, `ask` is the only way. */
  readonly takesInputRequired: boolean;
  /**
   * Whether the `requestState` of a server's `input_required` result is sealed on its way to the client: where it has to
   * find its server again, or has a caller to be bound to. Else it passes as it is.
   */
  readonly sealsInput?: boolean;
  /**
   * The `Mcp-Param-*` headers that came with a stateless request, by lower-case name, for the code that knows what the tool
   * declares (streamable-http §Server Behavior for Custom Headers). Absent or null where the wire has no headers.
   */
  readonly paramHeaders?: Readonly<Record<string, string>> | null;
  /** The answer may begin a task, which is asked after later. */
  readonly beginsTask?: boolean;
  /** The answer began a task whose end is waited for here: its notifications until then belong to this call. */
  readonly waitsForTask?: boolean;
  /**
   * Monotonic: since when the call under way waits, where a node to serve it had to be found first. Its deadline counts
   * from then. An exchange may make one call after another, each with a deadline of its own.
   */
  begunAt?: number | undefined;
  /** How much of that time was spent on nodes that failed: the search for a node has a limit of its own. */
  triedMs?: number | undefined;
  /** Why the call was cancelled; null while it is live. */
  readonly cancelled: string | null;
  /**
   * Set by the code that currently works on the exchange, called at most once when the caller cancels or vanishes (where
   * its era means cancel by that). Must not throw. Null when no code listens.
   */
  onCancel: ((reason: string) => void) | null;
  /**
   * Hands the client a notification that belongs to this call (progress, log message). Never blocks, never throws.
   * `flow` is what it came on, where that can wait: it is paused while the client does not keep up.
   */
  emit(notification: Message, flow?: Flow | null): void;
  /**
   * Asks the client something the server wants to know (sampling, elicitation, roots). Resolves with the client's
   * answer (kind `result` or `error`); rejects with GatewayError when it cannot be asked or will never answer.
   * `likely`: nothing says that the question is this call's, so that it does not end with the call's answer.
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
  /** Runs the exchange to its one outcome. Never rejects. */
  run(exchange: Exchange, endpoint: Endpoint): Promise<Outcome>;
}

/** A client-facing virtual MCP server. */
export interface Endpoint {
  /** `aggregate`: all servers the caller may use, under exposed names. `server`: one server, its own names. */
  readonly kind: 'aggregate' | 'server';
  /** The server's name; empty for the aggregate. */
  readonly server: string;
  /** URL path, as in `/servers/memory/mcp`. */
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
