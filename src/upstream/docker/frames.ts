const HEADER = 8;
const STDOUT = 1;
const STDERR = 2;

export interface FrameSink {
  stdout(chunk: Buffer): void;
  stderr(chunk: Buffer): void;
  /** The stream is none of the Engine's: nothing is told after this. */
  broken(): void;
}

/**
 * Takes apart the stream of an attached container (Engine API, "Stream format"): eight bytes of header say which of the
 * container's streams a piece is of and how long it is. Pieces are handed on as they arrive, whatever the frame's
 * length, so that nothing is kept but a header.
 */
export class Frames {
  readonly #sink: FrameSink;
  readonly #header = Buffer.alloc(HEADER);
  #headerBytes = 0;
  #stream = 0;
  #left = 0;
  #broken = false;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && !this.#broken) {
      if (this.#left > 0) {
        const piece = chunk.subarray(at, at + this.#left);
        at += piece.length;
        this.#left -= piece.length;
        if (this.#stream === STDOUT) this.#sink.stdout(piece);
        else if (this.#stream === STDERR) this.#sink.stderr(piece);
      } else {
        const taken = chunk.copy(this.#header, this.#headerBytes, at, at + HEADER - this.#headerBytes);
        at += taken;
        this.#headerBytes += taken;
        if (this.#headerBytes === HEADER) this.#begin();
      }
    }
  }

  #begin(): void {
    this.#headerBytes = 0;
    this.#stream = this.#header[0]!;
    this.#left = this.#header.readUInt32BE(4);
    if (this.#stream <= STDERR && this.#header[1] === 0 && this.#header[2] === 0 && this.#header[3] === 0) return;
    this.#broken = true;
    this.#sink.broken();
  }
}
