import type { Clock } from '../../model/clock.ts';
import type { HttpPost } from './http-post.ts';

/**
 * Reply streams that carried their answer and were not ended by the server. Most end in the same instant, so there is
 * no timer per stream: one sweep, only while there are any, cuts what has been here for a whole round.
 */
export class HttpLingering {
  readonly #clock: Clock;
  readonly #lingerMs: number;
  /** Null while there are none: of most connections there never are. */
  #young: Set<HttpPost> | null = null;
  #old: Set<HttpPost> | null = null;
  #stop: (() => void) | null = null;

  constructor(clock: Clock, lingerMs: number) {
    this.#clock = clock;
    this.#lingerMs = lingerMs;
  }

  add(post: HttpPost): void {
    this.#young ??= new Set();
    this.#young.add(post);
    if (this.#stop === null) this.#arm();
  }

  delete(post: HttpPost): void {
    if (this.#young?.delete(post) !== true) this.#old?.delete(post);
  }

  close(): void {
    this.#stop?.();
    for (const post of this.#old ?? []) post.abort();
    for (const post of this.#young ?? []) post.abort();
    this.#old = null;
    this.#young = null;
  }

  #arm(): void {
    this.#stop = this.#clock.after(this.#lingerMs, () => {
      this.#stop = null;
      for (const post of this.#old ?? []) post.abort();
      this.#old = this.#young;
      this.#young = null;
      if (this.#old !== null && this.#old.size > 0) this.#arm();
    });
  }
}
