import { scoped } from '../../bus/subjects.ts';
import type { ErrorCode, FailureOutcome } from '../../model/error-catalogue.ts';
import type { Tool, ToolCallResult } from '../embedding/mcp-types.ts';
import { subjectExecute, subjectListTools } from './subjects.ts';

/** What a program sends to an `execute` subject, or to a `list-tools` subject with an empty `tool` (S0.6). */
export interface MCPToolRequest {
  /** The caller's name for a conversation; default `default`. */
  readonly session_id?: string;
  readonly tool: string;
  readonly args?: Readonly<Record<string, unknown>> | null;
  readonly timeout_ms?: number;
}

/** The outcome of a call, in addition to the members of the seeds' replies. */
export interface MCPReplyOutcome {
  readonly error?: string;
  readonly outcome?: 'RESULT' | FailureOutcome;
  readonly failure?: { readonly code: number; readonly name: ErrorCode; readonly retryable?: boolean };
  /** The JSON-RPC error of the server. */
  readonly mcp_error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** The reply of an `execute` subject (S0.7). */
export interface MCPToolReply extends MCPReplyOutcome {
  readonly result?: unknown;
  /** The complete result of the server. */
  readonly mcp?: ToolCallResult;
}

/** The reply of a `list-tools` subject (S0.8). */
export interface MCPToolListReply extends MCPReplyOutcome {
  readonly tools: readonly Tool[] | null;
}

/** The event that a server was removed (S0.5). */
export interface MCPDeletedEvent {
  readonly name: string;
}

/** A NATS connection, as `@nats-io/transport-node` makes one. */
export interface ToolConnection<Headers> {
  request(
    subject: string,
    payload: string,
    options: { readonly timeout: number; headers?: Headers },
  ): Promise<{ readonly data: Uint8Array }>;
}

export interface ToolClientOptions<Headers> {
  /** The `cluster.name` of the nodes, if they have one. */
  readonly cluster?: string;
  /** The conversation: calls of one agent with the same value share the server's state. Default: `default`. */
  readonly sessionId?: string;
  /** How long a call may take. Default: a minute. */
  readonly timeoutMs?: number;
  /** With `Trunkline-Key`, the key of the agent, unless the cluster has a `publicPrincipal`. */
  readonly headers?: Headers;
}

const TIMEOUT_MS = 60_000;
/** The gateway reports a timeout itself; the client does so only if that answer does not arrive. */
const GRACE_MS = 2_000;
/** Calls that did not begin are sent again for this time, within which the cluster replaces a lost node. */
const RETRY_MS = 5_000;
const PAUSE_MS = 100;

/** A call had no result. `outcome` says whether it may have run. */
export class ToolCallError extends Error {
  /** RESULT: the tool ran, and reported a failure. UNKNOWN: it may have run. NOT_SENT and REFUSED: it did not. */
  readonly outcome: 'RESULT' | FailureOutcome;
  /** Null if no node answered. */
  readonly reply: MCPReplyOutcome | null;

  constructor(message: string, outcome: ToolCallError['outcome'], reply: MCPReplyOutcome | null, cause?: unknown) {
    super(message, { cause });
    this.name = 'ToolCallError';
    this.outcome = outcome;
    this.reply = reply;
  }
}

/**
 * Calls tools of a cluster over NATS, whichever node has the server and the conversation. Repeats calls that certainly did
 * not run for five seconds; does not repeat calls that may have run, except lists.
 */
export class ToolClient<Headers = unknown> {
  readonly #connection: ToolConnection<Headers>;
  readonly #options: ToolClientOptions<Headers>;

  constructor(connection: ToolConnection<Headers>, options: ToolClientOptions<Headers> = {}) {
    this.#connection = connection;
    this.#options = options;
  }

  /** Rejects with ToolCallError, also if the tool reports a failure. */
  call(server: string, tool: string, args: MCPToolRequest['args'] = {}): Promise<MCPToolReply> {
    return this.#ask<MCPToolReply>(subjectExecute(server), tool, args, false);
  }

  /** All tools of the server. Rejects with ToolCallError. */
  async tools(server: string): Promise<readonly Tool[]> {
    return (await this.#ask<MCPToolListReply>(subjectListTools(server), '', null, true)).tools ?? [];
  }

  async #ask<Reply extends MCPReplyOutcome>(
    subject: string,
    tool: string,
    args: MCPToolRequest['args'],
    repeatable: boolean,
  ): Promise<Reply> {
    const { timeoutMs = TIMEOUT_MS } = this.#options;
    const start = performance.now();
    for (;;) {
      const leftMs = timeoutMs - (performance.now() - start);
      try {
        return await this.#once<Reply>(subject, tool, args, Math.max(1, Math.round(leftMs)));
      } catch (error) {
        const waitedMs = performance.now() - start;
        const again = error instanceof ToolCallError && isWorthwhile(error, repeatable);
        if (!again || waitedMs >= Math.min(RETRY_MS, timeoutMs - PAUSE_MS)) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
  }

  async #once<Reply extends MCPReplyOutcome>(
    subject: string,
    tool: string,
    args: MCPToolRequest['args'],
    timeoutMs: number,
  ): Promise<Reply> {
    const { cluster = null, sessionId, headers } = this.#options;
    const request: MCPToolRequest = {
      ...(sessionId === undefined ? {} : { session_id: sessionId }),
      tool,
      args: args ?? {},
      timeout_ms: timeoutMs,
    };
    const options = { timeout: timeoutMs + GRACE_MS, ...(headers === undefined ? {} : { headers }) };
    let data: Uint8Array;
    try {
      ({ data } = await this.#connection.request(scoped(cluster, subject), JSON.stringify(request), options));
    } catch (cause) {
      throw unanswered(subject, cause);
    }
    const reply = readReply<Reply>(subject, data);
    if (reply.error === undefined || reply.error === '') return reply;
    throw new ToolCallError(reply.error, reply.outcome ?? 'RESULT', reply);
  }
}

function isWorthwhile({ outcome, reply }: ToolCallError, repeatable: boolean): boolean {
  if (outcome === 'UNKNOWN') return repeatable;
  if (outcome === 'RESULT') return false;
  return reply === null || reply.failure?.retryable === true;
}

/** NOT_SENT if no node serves the subject, or the client was closed before: then nothing ran. */
function unanswered(subject: string, cause: unknown): ToolCallError {
  const { name, message } = cause as Error;
  const chain = `${name} ${((cause as Error).cause as Error | undefined)?.name ?? ''}`;
  const notSent = /NoResponders|ClosedConnection|DrainingConnection/.test(chain) || message === '503';
  const text = notSent ? `no node serves ${subject}` : `no answer came from ${subject}; the call may have run`;
  return new ToolCallError(`${text}: ${message}`, notSent ? 'NOT_SENT' : 'UNKNOWN', null, cause);
}

function readReply<Reply>(subject: string, data: Uint8Array): Reply {
  try {
    return JSON.parse(new TextDecoder().decode(data)) as Reply;
  } catch (cause) {
    throw new ToolCallError(`the answer from ${subject} is no JSON`, 'UNKNOWN', null, cause);
  }
}

interface PublicReply {
  readonly result?: unknown;
  readonly tools?: readonly Tool[] | null;
  readonly error?: string;
}

/** Returns the result in the reply of an `execute` subject; throws the error in it, or that it is invalid (S0.9). */
export function decodeToolReply(data: Uint8Array): unknown {
  return decoded(data, 'tool').result;
}

/** Returns the tools in the reply of a `list-tools` subject (S0.10). */
export function decodeListToolsReply(data: Uint8Array): readonly Tool[] {
  return decoded(data, 'list-tools').tools ?? [];
}

function decoded(data: Uint8Array, what: string): PublicReply {
  let reply: PublicReply | null;
  try {
    reply = JSON.parse(Buffer.from(data).toString()) as PublicReply | null;
  } catch (cause) {
    throw new Error(`decode ${what} reply: ${(cause as Error).message}`, { cause });
  }
  if (typeof reply !== 'object' || reply === null) throw new Error(`decode ${what} reply: it is no object`);
  if (typeof reply.error === 'string' && reply.error !== '') throw new Error(reply.error);
  return reply;
}
