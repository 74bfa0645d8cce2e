/** So much passed on in large messages has left about three times as much behind: what came, joined, spliced. */
const COLLECT_BYTES = 16 * 1024 * 1024;
/** A collection is followed by so many times what it took, in which there is none. */
const REST = 30;

/**
 * Has what large messages leave behind collected after every so many bytes. V8 collects young memory when there are many
 * objects, and buffers of 64 KiB are few; so it lets them lie until there are 100 MiB of them or more, and then goes
 * through the whole heap, again and again. To collect what is young costs a millisecond, and frees all of them (F16).
 */
export class YoungGarbage {
  readonly #collect: () => void;
  readonly #now: () => number;
  #bytes = 0;
  #notBeforeMs = 0;

  constructor(collect: () => void, now: () => number = () => performance.now()) {
    this.#collect = collect;
    this.#now = now;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes < COLLECT_BYTES) return;
    const begunMs = this.#now();
    if (begunMs < this.#notBeforeMs) return;
    this.#bytes = 0;
    this.#collect();
    const endedMs = this.#now();
    this.#notBeforeMs = endedMs + REST * (endedMs - begunMs);
  }
}
