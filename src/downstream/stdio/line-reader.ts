import { ByteGatherer } from '../../model/byte-gatherer.ts';

const NEWLINE = 0x0a;
const NOTHING = Buffer.alloc(0);

/**
 * Splits a byte stream into lines, in linear time however it is chunked. A line above the limit is reported once and
 * dropped; the lines after it are read normally.
 */
export class LineReader {
  readonly #maxBytes: number;
  readonly #onLine: (line: Buffer) => void;
  readonly #onTooLong: () => void;
  readonly #held = new ByteGatherer();
  #skipping = false;

  /** `onLine` gets each line without its line break, and may keep it; blank lines are left out. */
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
      this.#end(chunk.subarray(start, end));
      start = end + 1;
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
  }

  /** The stream has ended; the last line may lack its line break. */
  end(): void {
    this.#end(NOTHING);
  }

  /** A line that arrived in one piece is passed on without a copy. */
  #end(last: Buffer): void {
    const whole = this.#held.length === 0 && !this.#skipping && last.length <= this.#maxBytes;
    if (!whole) this.#add(last);
    const skipped = this.#skipping;
    this.#skipping = false;
    if (!skipped) this.#finish(whole ? last : this.#held.take());
  }

  #add(piece: Buffer): void {
    if (this.#skipping || piece.length === 0) return;
    if (this.#held.length + piece.length > this.#maxBytes) {
      this.#skipping = true;
      this.#held.clear();
      this.#onTooLong();
    } else this.#held.add(piece);
  }

  #finish(bytes: Buffer): void {
    const line = bytes.at(-1) === 0x0d ? bytes.subarray(0, -1) : bytes;
    if (line.some((byte) => byte !== 0x20 && byte !== 0x09)) this.#onLine(line);
  }
}
