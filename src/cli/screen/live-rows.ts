import { cut, displayWidth } from './display-width.ts';

/** A terminal, as `process.stdout` is one. */
export interface ScreenStream {
  write(text: string): unknown;
  /** Columns and rows as they are now, and not as the last signal of a change said. */
  getWindowSize(): [number, number];
}

/** The terminal shows what lies between these at once, where it knows them. */
const AT_ONCE = '\x1b[?2026h';
const DONE = '\x1b[?2026l';
const WRAP = '\x1b[?7h';
/** Terminals disagree about the width of some characters: where a row is too wide all the same, it stays one row. */
const NO_WRAP = '\x1b[?7l';
const CLEAR_BELOW = '\x1b[J';
const CLEAR = '\x1b[2J\x1b[H';

/**
 * Rows that are drawn anew in place. The cursor rests on an empty line above them: what another program writes there, or
 * the user types, stays, and the rows are drawn below it the next time. Where the window gets narrower than a row,
 * terminals disagree about where the cursor is then: the window is cleared.
 */
export class LiveRows {
  readonly #stream: ScreenStream;
  /** What is written first into a window that was cleared. */
  readonly #top: () => string;
  #rows: readonly string[] = [];
  #drawn = '';
  #text = '';
  /** The width of the widest row that is drawn. */
  #widest = 0;
  #resting = false;

  constructor(stream: ScreenStream, top: () => string) {
    this.#stream = stream;
    this.#top = top;
  }

  get columns(): number {
    return this.#stream.getWindowSize()[0];
  }

  /** How many rows fit below the empty line. */
  get height(): number {
    return Math.max(1, this.#stream.getWindowSize()[1] - 2);
  }

  /** Each row is cut to the width of the window. */
  draw(rows: readonly string[]): void {
    this.#rows = rows;
    this.#paint();
  }

  /** Text above the rows, which stays. Many at once are one drawing. */
  print(text: string): void {
    if (this.#resting) {
      this.#stream.write(text);
      return;
    }
    if (this.#text === '') setImmediate(() => this.#paint());
    this.#text += text;
  }

  /** Another uses the terminal: the rows are taken away, or with `stay` left behind, until `go`. */
  rest(stay = false): void {
    if (this.#resting) return;
    this.#paint();
    this.#resting = true;
    this.#drawn = '';
    this.#stream.write(stay ? `\x1b[${this.#fitting.length}B\r\n` : CLEAR_BELOW);
  }

  go(): void {
    this.#resting = false;
    this.#paint();
  }

  get #fitting(): readonly string[] {
    return this.#rows.slice(0, this.height);
  }

  #paint(): void {
    if (this.#resting) return;
    const { columns } = this;
    const rows = this.#fitting.map((row) => cut(row, columns));
    const text = this.#text;
    const drawing = `${NO_WRAP}${rows.map((row) => `\n${row}`).join('')}${WRAP}\x1b[${rows.length}A\r`;
    const drawn = `${columns} ${drawing}`;
    if (rows.length === 0 || (text === '' && drawn === this.#drawn)) return;
    this.#text = '';
    this.#drawn = drawn;
    const narrower = columns < this.#widest;
    this.#widest = Math.max(...rows.map(displayWidth));
    // As many blanks as a line has end on the same line only where the cursor was at its beginning, else on the next one.
    const fresh = narrower ? `${CLEAR}${this.#top()}` : `${' '.repeat(columns)}\r${CLEAR_BELOW}`;
    this.#stream.write(`${AT_ONCE}${fresh}${text}${drawing}${DONE}`);
  }
}
