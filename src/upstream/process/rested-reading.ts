import type { Readable } from 'node:stream';
import { FLOOD_REST_MS } from '../../model/flood-slice.ts';
import { readOut } from './read-out.ts';

/**
 * Reads what nobody waits for, and rests after each piece: what is written line by line, each of which would wake us, comes
 * in few large pieces then, and a flood finds its pipe full.
 */
export class RestedReading {
  readonly #stream: Readable;
  readonly #take: (chunk: Buffer) => void;
  readonly #heard = (chunk: Buffer): void => {
    this.#take(chunk);
    if (this.#ended) return;
    this.#stream.pause();
    this.#rest ??= setTimeout(() => this.#goOn(), FLOOD_REST_MS);
  };
  #rest: NodeJS.Timeout | null = null;
  #ended = false;

  constructor(stream: Readable, take: (chunk: Buffer) => void) {
    this.#stream = stream;
    this.#take = take;
    stream.on('data', this.#heard);
  }

  /** What was read is taken at once, and what is left, which is little, as it comes. */
  flush(): void {
    this.#ended = true;
    this.#endRest();
    readOut(this.#stream, this.#heard, this.#take);
  }

  #goOn(): void {
    this.#endRest();
    this.#stream.resume();
  }

  #endRest(): void {
    if (this.#rest !== null) clearTimeout(this.#rest);
    this.#rest = null;
  }
}
