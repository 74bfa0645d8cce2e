import type { Socket } from 'node:net';

/** So much is handed to the kernel in one turn of the event loop; a tenth of a millisecond. */
const PIECE_BYTES = 256 * 1024;

/** From this size on a body is written in pieces: copying megabytes at once makes all others wait. */
export const PACED_BYTES = 8 * PIECE_BYTES;

/** Writes a large answer in pieces, one per turn of the event loop. Nothing else may be written until it is done. */
export class PacedWrite {
  readonly #socket: Socket;
  readonly #parts: readonly Buffer[];
  readonly #done: () => void;
  #part = 0;
  #at = 0;
  /** Not given to the socket so far. */
  left: number;

  constructor(socket: Socket, parts: readonly Buffer[], bytes: number, done: () => void) {
    this.#socket = socket;
    this.#parts = parts;
    this.left = bytes;
    this.#done = done;
    this.#next();
  }

  readonly #next = (): void => {
    if (!this.#socket.writable) return;
    const piece = this.#piece();
    this.left -= piece.length;
    if (this.left === 0) {
      this.#socket.write(piece);
      this.#done();
    } else this.#socket.write(piece, this.#written);
  };

  readonly #written = (error?: Error | null): void => {
    if (!error) setImmediate(this.#next);
  };

  #piece(): Buffer {
    while (this.#at === this.#parts[this.#part]!.length) {
      this.#part++;
      this.#at = 0;
    }
    const piece = this.#parts[this.#part]!.subarray(this.#at, this.#at + PIECE_BYTES);
    this.#at += piece.length;
    return piece;
  }
}
