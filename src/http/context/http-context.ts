import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import type { BodyBudget } from './body-budget.ts';
import type { Refusal, RefusalRenderer } from './refusal.ts';

/** Called once with the whole body, or with why it is refused. Not called if the client disconnects before that. */
export type BodyCallback = (body: Buffer | null, refusal: Refusal | null) => void;

/** Notified when a request context ends. */
export interface HttpContextWatcher {
  /** The answer was sent (`finished`), or the connection is gone before. Called once. */
  closed(): void;
}

/**
 * One request and its answer on a connection of `node:http` (`NodeHttpContext`) or of the fast path (`FastPathContext`):
 * bytes and framing only.
 */
export interface HttpContext {
  readonly method: string;
  /** Path and query as received. */
  readonly target: string;
  /** Names in lower case. Read only: requests with the same head share the object. */
  readonly headers: Readonly<IncomingHttpHeaders>;
  readonly socket: Socket;
  /** Number of header lines received. */
  readonly headerLines: number;
  /** The name of a header that must not be repeated and was; null for none. */
  readonly repeatedHeader: string | null;
  /** The request has been received to its end. */
  readonly complete: boolean;
  /** The client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean;
  /** An answer has been begun. */
  readonly headersSent: boolean;
  /** The kernel has taken the last byte of the answer. */
  readonly finished: boolean;
  /** The client can receive nothing more. */
  readonly destroyed: boolean;
  /** Bytes of the answer that the kernel has not taken. */
  readonly pendingBytes: number;
  /** Those of them that are not in the socket yet: they wait for an earlier answer on the connection. */
  readonly queuedBytes: number;

  /** Sets the only watcher; a later one replaces it. */
  watch(watcher: HttpContextWatcher): void;
  /** Makes this the last request: the connection ends with its answer. */
  disableKeepAlive(): void;
  /** `headers`: name and value alternating. Without a content type the answer has no body. */
  send(status: number, contentType: string | null, body: readonly Buffer[], headers: readonly string[]): void;
  /** Answers with a refusal although more of the request may arrive, and ends the connection. */
  sendAndClose(refusal: Refusal, render: RefusalRenderer): void;
  /** Calls `task` once when the kernel has taken the whole answer; not if the connection breaks before. */
  whenSent(task: () => void): void;
  /** Sends `100 Continue` if the client waits for it, and reads the body up to a limit and while the budget has room. */
  readBody(maxBytes: number, budget: BodyBudget, done: BodyCallback): void;
  /** Begins an answer of unknown length; sends its head at once. */
  open(headers: readonly string[]): void;
  /** Writes more of an answer of unknown length. */
  write(parts: readonly Buffer[]): void;
  end(): void;
  destroy(): void;
  /** Closes the connection if its client takes nothing for this long while some of this answer is pending. */
  limitStall(stallMs: number): void;
}
