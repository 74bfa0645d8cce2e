import { isAbsolute, relative } from 'node:path';
import { PROBLEMS, type ProblemCode } from './problem-catalogue.ts';

/** Half-open range of UTF-16 offsets in a source's text. */
export interface TextSpan {
  readonly start: number;
  readonly end: number;
}

export interface Position {
  /** 1-based. */
  readonly line: number;
  /** 1-based, in UTF-16 units as editors count. */
  readonly column: number;
}

/** The text of one configuration file, without its byte-order mark, and the offsets of its lines. */
export class Source {
  /** Absolute path, or a label in angle brackets without a file. */
  readonly file: string;
  readonly text: string;
  readonly #lineStarts: number[] = [0];
  readonly #masked: TextSpan[] = [];

  constructor(file: string, text: string) {
    this.file = file;
    this.text = text;
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.#lineStarts.push(at + 1);
  }

  position(offset: number): Position {
    const starts = this.#lineStarts;
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
    const starts = this.#lineStarts;
    const start = starts[Math.min(line, starts.length) - 1] ?? 0;
    return Math.min(start + Math.max(column, 1) - 1, this.text.length);
  }

  /** The line for display: masked parts are stars, tabs and control characters are blanks. */
  shownLine(line: number): string {
    const starts = this.#lineStarts;
    const start = starts[line - 1] ?? this.text.length;
    let end = starts[line] ?? this.text.length;
    while (end > start && /[\r\n]/.test(this.text[end - 1]!)) end--;
    let shown = '';
    let at = start;
    const masked = this.#masked.filter((span) => span.start < end && span.end > start);
    for (const { start: from, end: to } of masked.sort((a, b) => a.start - b.start)) {
      const left = Math.max(from, at);
      const right = Math.min(to, end);
      if (right <= left) continue;
      shown += this.text.slice(at, left) + '*'.repeat(right - left);
      at = right;
    }
    shown += this.text.slice(at, end);
    return shown.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, ' ');
  }

  /** Shows this part of the text as stars from now on, since it contains a secret. */
  mask(span: TextSpan): void {
    this.#masked.push(span);
  }
}

/** A problem of a configuration, for display: what, where, why and the fix. Contains no secret. */
export interface ConfigProblem {
  readonly code: ProblemCode;
  /** Absolute path, or a label in angle brackets without a file. */
  readonly file: string;
  /** 1-based; 0 for a problem of the whole file. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
  /** The line with a marker below it; empty without a place. */
  readonly frame: string;
  readonly fix: string;
}

const MAX_PROBLEMS = 100;
const FRAME_WIDTH = 110;

/** Collects the problems of a configuration, so that all are reported at once. Keeps at most 100 errors and 100 warnings. */
export class Problems {
  errors: ConfigProblem[] = [];
  readonly warnings: ConfigProblem[] = [];
  /** While true, errors are recorded as warnings: those of a disabled server do not stop the others. */
  lenient = false;

  error(code: ProblemCode, source: Source, span: TextSpan | null, message: string, fix?: string): void {
    const into = this.lenient ? this.warnings : this.errors;
    if (into.length < MAX_PROBLEMS) into.push(problemAt(code, source, span, message, fix));
  }

  warn(code: ProblemCode, source: Source, span: TextSpan | null, message: string, fix?: string): void {
    if (this.warnings.length < MAX_PROBLEMS) this.warnings.push(problemAt(code, source, span, message, fix));
  }

  /** Runs `read` and returns the errors that it reports, without adding them to the others. */
  capture(read: () => void): readonly ConfigProblem[] {
    const others = this.errors;
    const own: ConfigProblem[] = [];
    this.errors = own;
    try {
      read();
    } finally {
      this.errors = others;
    }
    return own;
  }

  get failed(): boolean {
    return this.errors.length > 0;
  }

  /** Whether `Problems` would drop a further problem of this kind, so that the caller need not build its text. */
  isFull(kind: 'errors' | 'warnings'): boolean {
    return this[kind].length >= MAX_PROBLEMS;
  }
}

export function problemAt(
  code: ProblemCode,
  source: Source,
  span: TextSpan | null,
  message: string,
  fix: string = PROBLEMS[code].fix,
): ConfigProblem {
  if (span === null) return { code, file: source.file, line: 0, column: 0, message, frame: '', fix };
  const { line, column } = source.position(span.start);
  return { code, file: source.file, line, column, message, frame: frameOf(source, span, line, column), fix };
}

/** Reports a repeated key of a map at its second place. */
export function reportDuplicate(key: string, at: TextSpan, first: TextSpan, source: Source, problems: Problems): void {
  const { line } = source.position(first.start);
  problems.error('TL1103', source, at, `the key ${JSON.stringify(key)} is repeated here (first in line ${line})`);
}

/** The problem as text, without a trailing line break. Paths inside `cwd` are relative to it. */
export function renderProblem(problem: ConfigProblem, cwd: string = process.cwd()): string {
  const lines = [`${problem.code}  ${placeOf(problem, cwd)}  ${problem.message}`];
  if (problem.frame !== '') lines.push(problem.frame);
  lines.push(`   fix: ${problem.fix}`);
  return lines.join('\n');
}

function placeOf(problem: ConfigProblem, cwd: string): string {
  const near = isAbsolute(problem.file) ? relative(cwd, problem.file) : problem.file;
  const file = near === '' || near.startsWith('..') ? problem.file : near;
  return problem.line === 0 ? file : `${file}:${problem.line}:${problem.column}`;
}

function frameOf(source: Source, span: TextSpan, line: number, column: number): string {
  const whole = source.shownLine(line);
  const width = Math.max(1, Math.min(span.end - span.start, whole.length - column + 1));
  // A minified file is one line, so only a part of it is shown.
  const from = column + width <= FRAME_WIDTH ? 0 : Math.max(0, column - 40);
  const shown = whole.slice(from, from + FRAME_WIDTH).trimEnd();
  const label = String(line).padStart(5);
  const marker = '^'.repeat(Math.min(width, Math.max(1, FRAME_WIDTH - (column - 1 - from))));
  return `${label} | ${shown}\n${' '.repeat(5)} | ${' '.repeat(column - 1 - from)}${marker}`;
}

/** Longer words are not treated as misspelt names. */
const LONGEST = 80;

/** The candidate that was most likely meant; null if none is near. Ignores case, `-` and `_`. */
export function suggest(word: string, candidates: Iterable<string>): string | null {
  if (word.length > LONGEST) return null;
  const wanted = fold(word);
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 4)) + 1;
  for (const candidate of candidates) {
    if (candidate.length > LONGEST) continue;
    const distance = editDistance(wanted, fold(candidate), bestDistance);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `did you mean "x"?`, or `otherwise`. */
export function didYouMean(word: string, candidates: Iterable<string>, otherwise: string): string {
  const near = suggest(word, candidates);
  return near === null ? otherwise : `did you mean ${JSON.stringify(near)}?`;
}

function fold(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, '');
}

const rows = [0, 1, 2].map(() => new Uint8Array(LONGEST + 1));

/**
 * Optimal string alignment distance, capped at `limit`: a transposition of neighbours is one edit. Computes only cells near the
 * diagonal, since a mistake in a file of thousands of names must not take seconds.
 */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let [beforeLast, last, row] = rows as [Uint8Array, Uint8Array, Uint8Array];
  for (let j = 0; j <= b.length; j++) last[j] = Math.min(j, limit);
  for (let i = 1; i <= a.length; i++) {
    const from = Math.max(1, i - limit);
    const to = Math.min(b.length, i + limit);
    row[from - 1] = from === 1 ? Math.min(i, limit) : limit;
    let least = row[from - 1]!;
    for (let j = from; j <= to; j++) {
      const same = a.charCodeAt(i - 1) === b.charCodeAt(j - 1);
      const above = j < i + limit ? last[j]! : limit;
      let cost = Math.min(above + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1), limit);
      if (i > 1 && j > 1 && a.charCodeAt(i - 1) === b.charCodeAt(j - 2) && a.charCodeAt(i - 2) === b.charCodeAt(j - 1))
        cost = Math.min(cost, beforeLast[j - 2]! + 1);
      row[j] = cost;
      if (cost < least) least = cost;
    }
    if (least >= limit) return limit;
    [beforeLast, last, row] = [last, row, beforeLast];
  }
  return Math.min(last[b.length]!, limit);
}
