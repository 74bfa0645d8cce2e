/** So much passed on in large messages has left about three times as much behind: what came, joined, spliced. */
const COLLECT_BYTES = 16 * 1024 * 1024;
/** A collection is followed by so many times what it took, in which there is none. */
const REST = 30;

/**
 * Collects young memory after every so many bytes of large messages (F16). V8 collects it by the number of objects, and
 * lets 100 MiB of buffers lie; a young collection takes a millisecond.
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
