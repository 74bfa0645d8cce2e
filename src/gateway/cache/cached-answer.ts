import type { Message } from '../../model/message.ts';
import type { Range } from '../../protocol/fields.ts';
import { cacheHints } from '../../protocol/list-freshness.ts';
import { detached, spliceMessage } from '../../protocol/splice.ts';
import type { Subject } from './cache-key.ts';

/**
 * A server's own answer, kept for as long as the server said. What changes while it is kept is the time it has left
 * (C9); every other byte stays as the server wrote it.
 */
export class CachedAnswer {
  readonly subject: Subject;
  readonly size: number;
  /** Monotonic. */
  readonly expiresAt: number;
  readonly #message: Message;
  readonly #ttl: Range;

  /** `ttl` is where the message states its time to live. */
  constructor(subject: Subject, message: Message, ttl: Range, expiresAt: number) {
    this.subject = subject;
    this.size = message.bytes.length;
    this.expiresAt = expiresAt;
    this.#message = detached(message);
    this.#ttl = ttl;
  }

  fresh(now: number): boolean {
    return now < this.expiresAt;
  }

  /** The answer with the time that is left of its life; 0 for a stale one. */
  at(now: number): Message {
    return withTtl(this.#message, this.#ttl, Math.max(0, Math.floor(this.expiresAt - now)));
  }
}

/** An answer that is known to be out of date says so; the same where it states no time to live. */
export function outdated(message: Message): Message {
  const { ttl } = cacheHints(message.bytes, message.bodyStart, message.bodyEnd);
  return ttl === null ? message : withTtl(message, ttl, 0);
}

function withTtl(message: Message, ttl: Range, ttlMs: number): Message {
  return spliceMessage(message, [{ start: ttl.start, end: ttl.end, insert: String(ttlMs) }]);
}
