import { displayWidth, truncate } from './display-width.ts';

/** The part of `process.stdout` that `LiveRows` uses. */
export interface ScreenStream {
  write(text: string): unknown;
  /** Current columns and rows, not those of the last resize signal. */
  getWindowSize(): [number, number];
}

/** Synchronized output: a terminal that supports it shows all text between these two sequences at once. */
const AT_ONCE = '\x1b[?2026h';
const DONE = '\x1b[?2026l';
const WRAP = '\x1b[?7h';
/** Without wrapping, a row stays one row even if the terminal counts a character wider than we do. */
const NO_WRAP = '\x1b[?7l';
const CLEAR_BELOW = '\x1b[J';
const CLEAR = '\x1b[2J\x1b[H';

/**
 * Rows that are redrawn in place. The cursor rests on an empty line above them: output of other programs and input of the user
 * stay there, and the next drawing puts the rows below it. If the window becomes narrower than a row, the position of the
 * cursor depends on the terminal, so the window is cleared.
 */
export class LiveRows {
  readonly #stream: ScreenStream;
  /** First text in a cleared window. */
  readonly #top: () => string;
  #rows: readonly string[] = [];
  #drawn = '';
  #text = '';
  /** Width of the widest drawn row. */
  #widest = 0;
  #paused = false;

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

  /** Draws the rows, each cut to the width of the window. */
  draw(rows: readonly string[]): void {
    this.#rows = rows;
    this.#paint();
  }

  /** Prints text above the rows, where it stays. One redraw covers all texts of an event-loop turn. */
  print(text: string): void {
    if (this.#paused) {
      this.#stream.write(text);
      return;
    }
    if (this.#text === '') setImmediate(() => this.#paint());
    this.#text += text;
  }

  /** Stops drawing until `resume`, while other output uses the terminal. Removes the rows, or leaves them there with `stay`. */
  pause(stay = false): void {
    if (this.#paused) return;
    this.#paint();
    this.#paused = true;
    this.#drawn = '';
    this.#stream.write(stay ? `\x1b[${this.#fitting.length}B\r\n` : CLEAR_BELOW);
  }

  resume(): void {
    this.#paused = false;
    this.#paint();
  }

  get #fitting(): readonly string[] {
    return this.#rows.slice(0, this.height);
  }

  #paint(): void {
    if (this.#paused) return;
    const { columns } = this;
    const rows = this.#fitting.map((row) => truncate(row, columns));
    const text = this.#text;
    const drawing = `${NO_WRAP}${rows.map((row) => `\n${row}`).join('')}${WRAP}\x1b[${rows.length}A\r`;
    const drawn = `${columns} ${drawing}`;
    if (rows.length === 0 || (text === '' && drawn === this.#drawn)) return;
    this.#text = '';
    this.#drawn = drawn;
    const narrower = columns < this.#widest;
    this.#widest = Math.max(...rows.map(displayWidth));
    // Blanks for a whole line stay on it only if the cursor was at its beginning; otherwise the cursor moves to the next line.
    const fresh = narrower ? `${CLEAR}${this.#top()}` : `${' '.repeat(columns)}\r${CLEAR_BELOW}`;
    this.#stream.write(`${AT_ONCE}${fresh}${text}${drawing}${DONE}`);
  }
}
