import { isAbsolute, relative } from 'node:path';
import { PROBLEMS, type ProblemCode } from './problem-catalogue.ts';
import type { Source, Span } from './source.ts';

/** Something wrong in a configuration, ready to be shown: what, where, why and what to do. Holds no secret. */
export interface ConfigProblem {
  readonly code: ProblemCode;
  /** Absolute path, or a label in angle brackets where there is no file. */
  readonly file: string;
  /** 1-based; 0 where the problem is about the file as a whole. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
  /** The line with a marker below it; empty where there is nothing to show. */
  readonly frame: string;
  readonly fix: string;
}

const MAX_PROBLEMS = 100;
const FRAME_WIDTH = 110;

/**
 * Collects what is wrong while a configuration is read, so that everything is told at once. What comes after
 * the hundredth error or warning is dropped.
 */
export class Problems {
  errors: ConfigProblem[] = [];
  readonly warnings: ConfigProblem[] = [];
  /** While true, errors are recorded as warnings: what concerns a disabled server does not stop the others. */
  lenient = false;

  error(code: ProblemCode, source: Source, span: Span | null, message: string, fix?: string): void {
    const into = this.lenient ? this.warnings : this.errors;
    if (into.length < MAX_PROBLEMS) into.push(problemAt(code, source, span, message, fix));
  }

  warn(code: ProblemCode, source: Source, span: Span | null, message: string, fix?: string): void {
    if (this.warnings.length < MAX_PROBLEMS) this.warnings.push(problemAt(code, source, span, message, fix));
  }

  /** What is wrong in the part that `read` reads, apart from the errors of the rest. */
  apart(read: () => void): readonly ConfigProblem[] {
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

  /** Whether a further one of this kind would only be dropped: then there is no use in wording it. */
  isFull(kind: 'errors' | 'warnings'): boolean {
    return this[kind].length >= MAX_PROBLEMS;
  }
}

export function problemAt(
  code: ProblemCode,
  source: Source,
  span: Span | null,
  message: string,
  fix: string = PROBLEMS[code].fix,
): ConfigProblem {
  if (span === null) return { code, file: source.file, line: 0, column: 0, message, frame: '', fix };
  const { line, column } = source.position(span.start);
  return { code, file: source.file, line, column, message, frame: frameOf(source, span, line, column), fix };
}

/** A key that stands twice in one map, told at its second place. */
export function reportDuplicate(key: string, at: Span, first: Span, source: Source, problems: Problems): void {
  const { line } = source.position(first.start);
  problems.error('TL1103', source, at, `the key ${JSON.stringify(key)} is repeated here (first in line ${line})`);
}

/** The problem as it is printed, without a trailing line break. Paths inside `cwd` are shown relative to it. */
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

function frameOf(source: Source, span: Span, line: number, column: number): string {
  const whole = source.shownLine(line);
  const width = Math.max(1, Math.min(span.end - span.start, whole.length - column + 1));
  // A minified file is one line: only the neighbourhood is shown.
  const from = column + width <= FRAME_WIDTH ? 0 : Math.max(0, column - 40);
  const shown = whole.slice(from, from + FRAME_WIDTH).trimEnd();
  const label = String(line).padStart(5);
  const marker = '^'.repeat(Math.min(width, Math.max(1, FRAME_WIDTH - (column - 1 - from))));
  return `${label} | ${shown}\n${' '.repeat(5)} | ${' '.repeat(column - 1 - from)}${marker}`;
}
