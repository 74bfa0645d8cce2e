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
    const end = starts[line] ?? this.text.length;
    let shown = this.text.slice(start, end).replace(/[\r\n]+$/, '');
    for (const { start: from, end: to } of this.#masked) {
      if (to <= start || from >= start + shown.length) continue;
      const left = Math.max(from - start, 0);
      const right = Math.min(to - start, shown.length);
      shown = shown.slice(0, left) + '*'.repeat(right - left) + shown.slice(right);
    }
    return shown.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, ' ');
  }

  /** From now on this part of the text is shown starred: it holds a secret that is written out in the file. */
  mask(span: Span): void {
    this.#masked.push(span);
  }

  #starts(): number[] {
    if (this.#lineStarts !== null) return this.#lineStarts;
    const starts = [0];
    for (let at = this.text.indexOf('\n'); at >= 0; at = this.text.indexOf('\n', at + 1)) starts.push(at + 1);
    this.#lineStarts = starts;
    return starts;
  }
}
