import type { Message } from '../../model/message.ts';
import type { Range } from '../../protocol/fields.ts';
import { cacheHints } from '../../protocol/list-freshness.ts';
import { detached, spliceMessage } from '../../protocol/splice.ts';
import type { Subject } from './cache-key.ts';

interface StoreLimits {
  readonly entries: number;
  readonly bytes: number;
  /** A larger answer is not stored. */
  readonly bytesOfOne: number;
}

export const STORE_LIMITS: StoreLimits = { entries: 4_096, bytes: 32 * 1024 * 1024, bytesOfOne: 1024 * 1024 };

/** Answers by key, limited in number and bytes: the least recently used one is evicted first. */
export class AnswerStore {
  readonly #limits: StoreLimits;
  /** Least recently used first. */
  readonly #answers = new Map<string, CachedAnswer>();
  #bytes = 0;

  constructor(limits: StoreLimits = STORE_LIMITS) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#answers.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): CachedAnswer | null {
    const answer = this.#answers.get(key);
    if (answer === undefined) return null;
    this.#answers.delete(key);
    this.#answers.set(key, answer);
    return answer;
  }

  put(key: string, answer: CachedAnswer): void {
    this.delete(key);
    if (answer.size > this.#limits.bytesOfOne) return;
    this.#answers.set(key, answer);
    this.#bytes += answer.size;
    while (this.#answers.size > this.#limits.entries || this.#bytes > this.#limits.bytes) {
      this.delete(this.#answers.keys().next().value!);
    }
  }

  delete(key: string): void {
    const answer = this.#answers.get(key);
    if (answer === undefined) return;
    this.#answers.delete(key);
    this.#bytes -= answer.size;
  }

  /** Deletes the answers about matching subjects; returns their number. */
  deleteAll(concerns: (subject: Subject) => boolean): number {
    const before = this.#answers.size;
    for (const [key, { subject }] of this.#answers) if (concerns(subject)) this.delete(key);
    return before - this.#answers.size;
  }

  clear(): void {
    this.#answers.clear();
    this.#bytes = 0;
  }
}

/**
 * A server's answer for as long as the server allowed. Its time to live is replaced by the remaining time (C9); every other
 * byte stays as the server wrote it.
 */
export class CachedAnswer {
  readonly subject: Subject;
  readonly size: number;
  /** Monotonic time. */
  readonly expiresAt: number;
  readonly #message: Message;
  readonly #ttl: Range;

  /** `ttl`: the byte range of the message's time to live. */
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

  /** The answer with its remaining time to live; 0 if stale. */
  at(now: number): Message {
    return withTtl(this.#message, this.#ttl, Math.max(0, Math.floor(this.expiresAt - now)));
  }
}

/** The answer with a time to live of 0, because it is outdated; unchanged if it states none. */
export function outdated(message: Message): Message {
  const { ttl } = cacheHints(message.bytes, message.bodyStart, message.bodyEnd);
  return ttl === null ? message : withTtl(message, ttl, 0);
}

function withTtl(message: Message, ttl: Range, ttlMs: number): Message {
  return spliceMessage(message, [{ start: ttl.start, end: ttl.end, insert: String(ttlMs) }]);
}
