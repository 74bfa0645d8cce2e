import type { Clock } from '../../model/clock.ts';
import type { HttpPost } from './http-post.ts';

/**
 * Reply streams that carried their answer and were not ended by the server. Most end in the same instant, so there is
 * no timer per stream: one sweep, only while there are any, cuts what has been here for a whole round.
 */
export class HttpLingering {
  readonly #clock: Clock;
  readonly #lingerMs: number;
  #young = new Set<HttpPost>();
  #old = new Set<HttpPost>();
  #stop: (() => void) | null = null;

  constructor(clock: Clock, lingerMs: number) {
    this.#clock = clock;
    this.#lingerMs = lingerMs;
  }

  add(post: HttpPost): void {
    this.#young.add(post);
    if (this.#stop === null) this.#arm();
  }

  delete(post: HttpPost): void {
    if (!this.#young.delete(post)) this.#old.delete(post);
  }

  close(): void {
    this.#stop?.();
    for (const post of this.#old) post.abort();
    for (const post of this.#young) post.abort();
    this.#old.clear();
    this.#young.clear();
  }

  #arm(): void {
    this.#stop = this.#clock.after(this.#lingerMs, () => {
      this.#stop = null;
      for (const post of this.#old) post.abort();
      this.#old = this.#young;
      this.#young = new Set();
      if (this.#old.size > 0) this.#arm();
    });
  }
}
