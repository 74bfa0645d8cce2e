const MAX_SIZE_LINE = 4096;
const MAX_TRAILER_BYTES = 16 * 1024;
const MAX_SIZE_DIGITS = 12;

const CR = 0x0d;
const LF = 0x0a;

type State =
  | 'size'
  | 'extension'
  | 'size_lf'
  | 'data'
  | 'data_cr'
  | 'data_lf'
  | 'line'
  | 'trailer'
  | 'trailer_lf'
  | 'end_lf';

/**
 * Decodes `Transfer-Encoding: chunked` (RFC 9112 §7.1). Skips extensions and trailers within limits; requires CRLF. Call
 * `reset` before each body.
 */
export class ChunkedDecoder {
  #state: State = 'size';
  #size = 0;
  #digits = 0;
  #lineBytes = 0;
  #trailerBytes = 0;
  #done = false;

  get done(): boolean {
    return this.#done;
  }

  reset(): void {
    this.#state = 'size';
    this.#size = 0;
    this.#digits = 0;
    this.#lineBytes = 0;
    this.#trailerBytes = 0;
    this.#done = false;
  }

  /**
   * Passes runs of body bytes to `onData` as ranges. Returns the position behind the last byte taken (before `end` only if
   * the body is complete or `onData` returned false), or a text that describes the error.
   */
  push(bytes: Buffer, start: number, end: number, onData: (from: number, to: number) => boolean): number | string {
    let i = start;
    while (i < end && !this.#done) {
      if (this.#state === 'data') {
        const to = Math.min(end, i + this.#size);
        this.#size -= to - i;
        if (this.#size === 0) this.#state = 'data_cr';
        const from = i;
        i = to;
        if (!onData(from, to)) return i;
        continue;
      }
      const problem = this.#step(bytes[i++]!);
      if (problem !== null) return problem;
    }
    return i;
  }

  #step(byte: number): string | null {
    switch (this.#state) {
      case 'size':
        return this.#sizeDigit(byte);
      case 'extension':
        if (++this.#lineBytes > MAX_SIZE_LINE) return 'a chunk extension is too long';
        if (byte === CR) this.#state = 'size_lf';
        else if (isControl(byte)) return 'a chunk extension has control characters';
        return null;
      case 'size_lf':
        if (byte !== LF) return 'a chunk size line does not end in CRLF';
        this.#state = this.#size === 0 ? 'line' : 'data';
        return null;
      case 'data_cr':
        if (byte !== CR) return 'a chunk is longer than its size';
        this.#state = 'data_lf';
        return null;
      case 'data_lf':
        if (byte !== LF) return 'a chunk does not end in CRLF';
        this.#state = 'size';
        this.#digits = 0;
        this.#lineBytes = 0;
        return null;
      case 'line':
        if (byte === CR) {
          this.#state = 'end_lf';
          return null;
        }
        this.#state = 'trailer';
        return this.#trailerByte(byte);
      case 'trailer':
        return this.#trailerByte(byte);
      case 'trailer_lf':
        if (byte !== LF) return 'a trailer line does not end in CRLF';
        this.#state = 'line';
        return null;
      case 'end_lf':
        if (byte !== LF) return 'the chunked body does not end in CRLF';
        this.#done = true;
        return null;
      default:
        return 'impossible state';
    }
  }

  #sizeDigit(byte: number): string | null {
    const digit = hexDigit(byte);
    if (digit >= 0) {
      if (++this.#digits > MAX_SIZE_DIGITS) return 'a chunk size is too large';
      this.#size = this.#size * 16 + digit;
      return null;
    }
    if (this.#digits === 0) return 'a chunk size is missing';
    if (byte === CR) this.#state = 'size_lf';
    else if (byte === 0x3b || byte === 0x20 || byte === 0x09) this.#state = 'extension';
    else return 'a chunk size is malformed';
    return null;
  }

  #trailerByte(byte: number): string | null {
    if (++this.#trailerBytes > MAX_TRAILER_BYTES) return 'the trailers are too long';
    if (byte === CR) this.#state = 'trailer_lf';
    else if (isControl(byte)) return 'a trailer has control characters';
    return null;
  }
}

function isControl(byte: number): boolean {
  return (byte < 0x20 && byte !== 0x09) || byte === 0x7f;
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
