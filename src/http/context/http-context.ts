import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import type { BodyBudget } from './body-budget.ts';
import type { Refusal, RefusalRenderer } from './refusal.ts';

/** Called once with the whole body, or with why it is refused. Not at all when the client goes away before. */
export type BodyTaker = (body: Buffer | null, refusal: Refusal | null) => void;

/** It is called when a request context is over. */
export interface HttpContextWatcher {
  /** The answer is out (`finished`), or the connection is gone before. Called once. */
  closed(): void;
}

/**
 * One request and its answer on a connection of `node:http` (`NodeHttpContext`) or of the fast path
 * (`FastPathContext`): bytes and framing only.
 */
export interface HttpContext {
  readonly method: string;
  /** Path and query as they came. */
  readonly target: string;
  /** Names in lower case. Shared by requests with the same head: only to be read. */
  readonly headers: Readonly<IncomingHttpHeaders>;
  readonly socket: Socket;
  /** How many header lines came. */
  readonly headerLines: number;
  /** The name of a header that came more than once and must not; null for none. */
  readonly repeatedHeader: string | null;
  /** The request has been received to its end. */
  readonly complete: boolean;
  /** The client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean;
  /** An answer has been begun. */
  readonly begun: boolean;
  /** The kernel has taken the last byte of the answer. */
  readonly finished: boolean;
  /** Nothing that is written reaches the client any more. */
  readonly destroyed: boolean;
  /** Bytes of the answer that the kernel has not taken. */
  readonly pendingBytes: number;
  /** Those of them that the socket was not handed yet: they wait for the answer before this one on the connection. */
  readonly queuedBytes: number;

  /** One watcher; a later one takes its place. */
  watch(watcher: HttpContextWatcher): void;
  /** The next request is not taken: the connection ends with this answer. */
  last(): void;
  /** `headers` are name and value alternating. Without a type there is no body, and nothing is said of one. */
  send(status: number, contentType: string | null, body: readonly Buffer[], headers: readonly string[]): void;
  /** Answers with a refusal although more of the request may come, and ends the connection. */
  sendAndClose(refusal: Refusal, render: RefusalRenderer): void;
  /** Calls `task` once when the kernel has taken the whole answer; not when the connection breaks before. */
  whenSent(task: () => void): void;
  /** Lets the client go on with the body if it waits, and reads that up to a limit and as the budget has room. */
  readBody(maxBytes: number, budget: BodyBudget, done: BodyTaker): void;
  /** Begins an answer of unknown length; its head leaves at once. */
  open(headers: readonly string[]): void;
  /** More of such an answer. */
  write(parts: readonly Buffer[]): void;
  end(): void;
  destroy(): void;
  /** The connection is cut when its client takes nothing for so long while some of this answer waits. */
  limitStall(stallMs: number): void;
}
