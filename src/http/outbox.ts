import type { Socket } from 'node:net';

/** Longer messages are written in their parts. */
const OUTBOX_BYTES = 16 * 1024;

/** Shared by all sockets, because the kernel takes a small message at once; replaced after a write that stays pending. */
let outbox = Buffer.allocUnsafeSlow(OUTBOX_BYTES);

/** Writes a whole message: a head in latin1 and its parts. A small one is gathered in the shared buffer. */
export function writeMessage(socket: Socket, head: string, parts: readonly Buffer[], partsBytes: number): void {
  // TLS holds the buffers that it is given for a while.
  if (head.length + partsBytes > OUTBOX_BYTES || 'encrypted' in socket) {
    writePiece(socket, head, parts, partsBytes);
    return;
  }
  socket.write(gathered(outbox, head, parts));
  if (socket.writableLength > 0) outbox = Buffer.allocUnsafeSlow(OUTBOX_BYTES);
}

/** Writes a piece of a stream. Many pieces may wait for a client that does not read, so each has its own memory. */
export function writePiece(socket: Socket, head: string, parts: readonly Buffer[], partsBytes: number): void {
  const total = head.length + partsBytes;
  if (total <= OUTBOX_BYTES) {
    // Behind pending data a piece waits too, and must not hold a slice of the pool that others share.
    const own = socket.writableLength > 0 ? Buffer.allocUnsafeSlow(total) : Buffer.allocUnsafe(total);
    socket.write(gathered(own, head, parts));
    return;
  }
  socket.cork();
  socket.write(head, 'latin1');
  for (const part of parts) socket.write(part);
  socket.uncork();
}

function gathered(target: Buffer, head: string, parts: readonly Buffer[]): Buffer {
  let at = target.write(head, 0, 'latin1');
  for (const part of parts) at += part.copy(target, at);
  return target.subarray(0, at);
}

/** What is handed to the kernel in one turn of the event loop: a tenth of a millisecond. */
const PIECE_BYTES = 256 * 1024;

/** Longest body that is written at once: copying megabytes in one turn would block all others. */
export const PACED_BYTES = 8 * PIECE_BYTES;

/** Writes a large answer in pieces, one per turn of the event loop. Nothing else may be written until it is done. */
export class PacedWrite {
  readonly #socket: Socket;
  readonly #parts: readonly Buffer[];
  readonly #done: () => void;
  #part = 0;
  #at = 0;
  /** Bytes that are not handed to the socket yet. */
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
