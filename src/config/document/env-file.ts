import type { Problems } from '../problem/problem.ts';
import { Source, type Span } from '../problem/source.ts';
import { isReadFailure, readBytes } from './read-source.ts';

/** Of a line without white space at its ends. Every part of it can match in one way only: linear on any line. */
const LINE = /^(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=(.*)$/s;
const MAX_ENV_FILE_BYTES = 1024 * 1024;

/**
 * Reads NAME=value lines. Values may stand in single or double quotes; `\n` and `\"` are understood in the latter.
 * Nothing is expanded. Null when the file cannot be read, which is reported where it is named.
 */
export function readEnvFile(
  file: string,
  named: { readonly source: Source; readonly span: Span; readonly user: string },
  problems: Problems,
): Map<string, string> | null {
  const bytes = readBytes(file, MAX_ENV_FILE_BYTES);
  if (isReadFailure(bytes)) {
    problems.error('TL1205', named.source, named.span, `${file}: ${bytes.message} (used by ${named.user})`);
    return null;
  }
  const text = bytes.toString('utf8').replace(/^\ufeff/, '');
  const source = new Source(file, text);
  const values = new Map<string, string>();
  let offset = 0;
  for (const line of text.split('\n')) {
    const span = { start: offset, end: offset + line.replace(/\r$/, '').length };
    offset += line.length + 1;
    if (/^(?:#|$)/.test(line.trim())) continue;
    const [, name, written] = LINE.exec(line.trim()) ?? [];
    if (name === undefined || written === undefined) {
      source.mask(span);
      problems.error('TL1206', source, span, `this line is not NAME=value (used by ${named.user})`);
    } else values.set(name, unquoted(written));
  }
  return values;
}

/** In quotes as it should be, a comment behind it or not; the quote itself only behind a backslash. */
const QUOTED = /^(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:#.*)?$/s;
/** With quotes inside that nobody escaped. */
const WRAPPED = /^(?:"(.*)"|'(.*)')$/s;

/** `behind`: all that stands behind the equals sign. */
function unquoted(behind: string): string {
  const written = behind.trimStart();
  const [, double, single] = QUOTED.exec(written) ?? WRAPPED.exec(written) ?? [];
  if (single !== undefined) return single;
  if (double !== undefined) return double.replace(/\\(["\\nrt])/g, (_, letter: string) => ESCAPES[letter] ?? letter);
  // A comment begins with the first number sign that white space stands before.
  const comment = /\s#/.exec(behind);
  return comment === null ? written : behind.slice(0, comment.index).trim();
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };
