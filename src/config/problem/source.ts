/** Half-open range of UTF-16 offsets in a source's text. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface Position {
  /** 1-based. */
  readonly line: number;
  /** 1-based, in UTF-16 units as editors count. */
  readonly column: number;
}

/** The text of one configuration file, without its byte-order mark, and where its lines begin. */
export class Source {
  /** Absolute path, or a label in angle brackets where there is no file. */
  readonly file: string;
  readonly text: string;
  #lineStarts: number[] | null = null;
  readonly #masked: Span[] = [];
  #inOrder = true;

  constructor(file: string, text: string) {
    this.file = file;
    this.text = text;
  }

  position(offset: number): Position {
    const starts = this.#starts();
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - starts[low]! + 1 };
  }

  offsetOf(line: number, column: number): number {
    const starts = this.#starts();
    const start = starts[Math.min(line, starts.length) - 1] ?? 0;
    return Math.min(start + Math.max(column, 1) - 1, this.text.length);
  }

  /** The line's text as it may be shown: what was masked is starred, tabs and control characters are blanks. */
  shownLine(line: number): string {
    const starts = this.#starts();
    const start = starts[line - 1] ?? this.text.length;
    let end = starts[line] ?? this.text.length;
    while (end > start && isBreak(this.text.charCodeAt(end - 1))) end--;
    let shown = '';
    let at = start;
    for (const { start: from, end: to } of this.#masksInOrder()) {
      if (from >= end) break;
      const left = Math.max(from, at);
      const right = Math.min(to, end);
      if (right <= left) continue;
      shown += this.text.slice(at, left) + '*'.repeat(right - left);
      at = right;
    }
    shown += this.text.slice(at, end);
    return shown.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, ' ');
  }

  /** From now on this part of the text is shown starred: it holds a secret that is written out in the file. */
  mask(span: Span): void {
    this.#masked.push(span);
    this.#inOrder = false;
  }

  #masksInOrder(): readonly Span[] {
    if (!this.#inOrder) this.#masked.sort((a, b) => a.start - b.start);
    this.#inOrder = true;
    return this.#masked;
  }

  #starts(): number[] {
    if (this.#lineStarts !== null) return this.#lineStarts;
    const starts = [0];
    for (let at = this.text.indexOf('\n'); at >= 0; at = this.text.indexOf('\n', at + 1)) starts.push(at + 1);
    this.#lineStarts = starts;
    return starts;
  }
}

function isBreak(c: number): boolean {
  return c === 0x0a || c === 0x0d;
}
