const NEWLINE = 0x0a;

/**
 * Cuts a byte stream into lines. Linear whatever the pieces, and bounded: a line above the limit is dropped up to its
 * end and reported once, and what follows is read as ever.
 */
export class LineReader {
  readonly #maxBytes: number;
  readonly #onLine: (line: Buffer) => void;
  readonly #onTooLong: () => void;
  #pieces: Buffer[] = [];
  #length = 0;
  #skipping = false;

  /** `onLine` gets each line without its end, and may keep it; blank lines are left out. */
  constructor(maxBytes: number, onLine: (line: Buffer) => void, onTooLong: () => void) {
    this.#maxBytes = maxBytes;
    this.#onLine = onLine;
    this.#onTooLong = onTooLong;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start);
      if (end < 0) break;
      this.#add(chunk.subarray(start, end));
      this.#finish();
      start = end + 1;
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
  }

  /** The stream has ended; a last line may lack its end. */
  end(): void {
    this.#finish();
  }

  #add(piece: Buffer): void {
    if (this.#skipping || piece.length === 0) return;
    this.#length += piece.length;
    if (this.#length > this.#maxBytes) {
      this.#skipping = true;
      this.#pieces = [];
      this.#onTooLong();
    } else this.#pieces.push(piece);
  }

  #finish(): void {
    const pieces = this.#pieces;
    const skipped = this.#skipping;
    this.#pieces = [];
    this.#length = 0;
    this.#skipping = false;
    if (skipped || pieces.length === 0) return;
    let line = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
    if (line.at(-1) === 0x0d) line = line.subarray(0, -1);
    if (line.some((byte) => byte !== 0x20 && byte !== 0x09)) this.#onLine(line);
  }
}
