import { parse, TomlError } from 'smol-toml';
import type { Problems, Source, TextSpan } from '../problem/problem.ts';
import { MAX_DEPTH, MAX_PARTS, type Member, type Node, scalar } from './node.ts';
import { syntaxFix } from './syntax-fix.ts';

/** Limit of lines, commas and dots; lower than for other syntaxes, since values and places are separate until the end. */
const MAX_TOML_PARTS = MAX_PARTS / 4;

/** A dotted key with too many parts: smol-toml takes quadratic time on it. Matches from the start of a run only, in linear time. */
const LONG_KEY = new RegExp(`(?<![\\w"' -])(?:[\\w"' -]+\\.){${MAX_DEPTH}}`);

/** Parses TOML 1.0, as Codex writes it. smol-toml reads the values, `placesIn` finds their places. */
export function parseToml(source: Source, problems: Problems): Node | null {
  const tooMuch = exceedsBounds(source.text);
  if (tooMuch !== null) {
    const span = { start: tooMuch, end: tooMuch + 1 };
    problems.error('TL1102', source, span, 'too deep or too many values in one document');
    return null;
  }
  let value: Record<string, unknown>;
  try {
    value = parse(source.text, { maxDepth: MAX_DEPTH, integersAsBigInt: false });
  } catch (error) {
    report(error, source, problems);
    return null;
  }
  const whole = { start: 0, end: Math.min(1, source.text.length) };
  return build(value, [], whole, source, placesIn(source.text));
}

/** Offset at which the text exceeds a bound; null if it does not. */
function exceedsBounds(text: string): number | null {
  let parts = 0;
  let lineStart = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 10) {
      const keyEnd = Math.min(at, lineStart + 4096);
      if (LONG_KEY.test(text.slice(lineStart, keyEnd).split('=', 1)[0]!)) return lineStart;
      lineStart = at + 1;
    }
    if (code !== 10 && code !== 44 && code !== 46) continue;
    if (++parts > MAX_TOML_PARTS) return at;
  }
  return LONG_KEY.test(text.slice(lineStart, lineStart + 4096).split('=', 1)[0]!) ? lineStart : null;
}

function report(error: unknown, source: Source, problems: Problems): void {
  if (!(error instanceof TomlError)) throw error;
  const start = source.offsetOf(error.line, error.column);
  const length = /^[\w."'-]*/.exec(source.text.slice(start, start + 200))![0].length;
  const span = { start, end: start + Math.max(length, 1) };
  const message = (error.message.split('\n', 1)[0] ?? '').replace(/^Invalid TOML document: /, '');
  if (message.includes('nested'))
    problems.error('TL1102', source, span, `more than ${MAX_DEPTH} levels in one document`);
  else if (message.includes('redefine')) problems.error('TL1103', source, span, 'this table or key is defined again');
  else problems.error('TL1101', source, span, message, syntaxFix(source, span, message));
}

function build(
  value: unknown,
  path: Path,
  around: TextSpan,
  source: Source,
  places: ReadonlyMap<string, TomlPlace>,
): Node {
  const span = places.get(pathId(path))?.value ?? around;
  if (Array.isArray(value)) {
    return { kind: 'array', span, items: value.map((item, i) => build(item, [...path, i], span, source, places)) };
  }
  if (typeof value === 'object' && value !== null && !(value instanceof Date)) {
    const members: Member[] = Object.entries(value).map(([key, item]) => {
      const at = [...path, key];
      return { key, keySpan: places.get(pathId(at))?.key ?? span, value: build(item, at, span, source, places) };
    });
    return { kind: 'object', span, members };
  }
  const written = source.text.slice(span.start, span.end);
  return scalar(value instanceof Date ? written : value, span, written);
}

interface TomlPlace {
  readonly key: TextSpan;
  readonly value: TextSpan;
}

/** The path of keys and array indexes as one string; a TOML key cannot contain the separator unescaped. */
function pathId(path: Path): string {
  return path.join('\u0000');
}

const BLANK = /[ \t]*/y;
const VOID = /(?:\s+|#[^\n]*)*/y;
const VOID_OR_COMMA = /(?:[\s,]+|#[^\n]*)*/y;
/** A string may end with up to two quotes before the closing three. */
const BASIC = /"""[^"\\]*(?:(?:\\[\s\S]|"{1,2}(?!"))[^"\\]*)*"{3,5}|"[^"\\\n]*(?:\\.[^"\\\n]*)*"/y;
const LITERAL = /'''[^']*(?:'{1,2}(?!')[^']*)*'{3,5}|'[^'\n]*'/y;
const BARE_KEY = /[\w-]+/y;
/** A number, date or boolean; a date may have a blank before its time. */
const BARE_VALUE = /[^\s,\]}#]+(?: \d[^\s,\]}#]*)?/y;

type Path = readonly (string | number)[];

/**
 * The places of the keys and values of a TOML document, which smol-toml does not provide. Expects text that smol-toml accepted:
 * it does not validate, and omits places that it does not find.
 */
function placesIn(text: string): ReadonlyMap<string, TomlPlace> {
  const places = new Map<string, TomlPlace>();
  const tableCounts = new Map<string, number>();
  let at = 0;

  /** Advances over the match of the pattern and returns it. */
  function take(pattern: RegExp): string {
    pattern.lastIndex = at;
    const taken = pattern.exec(text)?.[0] ?? '';
    at += taken.length;
    return taken;
  }

  function note(path: Path, key: TextSpan, value: TextSpan): void {
    const id = pathId(path);
    if (!places.has(id)) places.set(id, { key, value });
  }

  const string = (): string => take(BASIC) || take(LITERAL);

  function keys(): { name: string; span: TextSpan }[] {
    const parts: { name: string; span: TextSpan }[] = [];
    do {
      take(BLANK);
      const start = at;
      const quoted = string();
      const name = quoted === '' ? take(BARE_KEY) : keyText(quoted);
      parts.push({ name, span: { start, end: at } });
      take(BLANK);
    } while (take(/\./y) !== '');
    return parts;
  }

  /** `[a.b]` or `[[a.b]]`. Every part of the name gets a place, so that the table of a server is found by its name. */
  function header(): Path {
    const start = at;
    const isArray = text[start + 1] === '[';
    at += isArray ? 2 : 1;
    const parts = keys();
    take(/\]{1,2}/y);
    let path: Path = [];
    parts.forEach(({ name, span }, index) => {
      path = [...path, name];
      const last = index === parts.length - 1;
      note(path, span, last && !isArray ? { start, end: at } : span);
      const id = pathId(path);
      const count = tableCounts.get(id);
      if (last && isArray) {
        tableCounts.set(id, (count ?? 0) + 1);
        path = [...path, count ?? 0];
        note(path, span, { start, end: at });
      } else if (count !== undefined) path = [...path, count - 1];
    });
    return path;
  }

  /** `a.b = value`, in a table or an inline table. */
  function assignment(table: Path): void {
    const parts = keys();
    take(/=[ \t]*/y);
    const paths = parts.map((_, index) => [...table, ...parts.slice(0, index + 1).map(({ name }) => name)]);
    const span = value(paths.at(-1)!);
    parts.forEach((part, index) => {
      note(paths[index]!, part.span, index === parts.length - 1 ? span : part.span);
    });
  }

  function value(path: Path): TextSpan {
    const start = at;
    if (text[start] === '[') {
      items(']', (index) => {
        const item = [...path, index];
        const span = value(item);
        note(item, span, span);
      });
    } else if (text[start] === '{') items('}', () => assignment(path));
    else if (string() === '') take(BARE_VALUE);
    return { start, end: at };
  }

  function items(close: string, read: (index: number) => void): void {
    at++;
    for (let index = 0; ; index++) {
      take(VOID_OR_COMMA);
      const before = at;
      if (before >= text.length || text[before] === close) break;
      read(index);
      if (at === before) return;
    }
    at++;
  }

  let table: Path = [];
  for (take(VOID); at < text.length; take(VOID)) {
    const before = at;
    if (text[at] === '[') table = header();
    else assignment(table);
    if (at === before) break;
  }
  return places;
}

/** The name in a quoted key; keeps escapes of TOML that JSON does not have. */
function keyText(written: string): string {
  if (written.startsWith("'")) return written.slice(1, -1);
  try {
    return JSON.parse(written) as string;
  } catch {
    return written.slice(1, -1);
  }
}
