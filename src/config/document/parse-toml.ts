import { parse, TomlError } from 'smol-toml';
import type { Problems, Source, TextSpan } from '../problem/problem.ts';
import { MAX_DEPTH, MAX_PARTS, type Member, type Node, scalar } from './node.ts';

/** Lines, commas and dots: fewer than of other syntaxes, because values and places are kept apart until the end. */
const MAX_TOML_PARTS = MAX_PARTS / 4;

/** Longest dotted key: smol-toml's time grows with its square. */
const LONG_KEY = new RegExp(`(?:[\\w"' -]+\\.){${MAX_DEPTH}}`);

/** TOML 1.0, as Codex writes it. smol-toml reads the values, `TomlPlaces` finds their places. */
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
  const { places } = new TomlPlaces(source.text);
  const whole = { start: 0, end: Math.min(1, source.text.length) };
  return build(value, [], whole, source, places);
}

/** Offset of the first thing that is too much, or null. */
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
  else problems.error('TL1101', source, span, message);
}

function build(
  value: unknown,
  path: readonly (string | number)[],
  around: TextSpan,
  source: Source,
  places: TomlPlaces['places'],
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
  key: TextSpan;
  value: TextSpan;
}

/** The path of keys and array indexes as one string; the separator cannot stand in a TOML key unescaped. */
function pathId(path: readonly (string | number)[]): string {
  return path.join('\u0000');
}

const BLANK = /[ \t]*/y;
const VOID = /(?:\s+|#[^\n]*)*/y;
const VOID_OR_COMMA = /(?:[\s,]+|#[^\n]*)*/y;
/** Up to two quotes may be right before the closing three. */
const BASIC = /"""[^"\\]*(?:(?:\\[\s\S]|"{1,2}(?!"))[^"\\]*)*"{3,5}|"[^"\\\n]*(?:\\.[^"\\\n]*)*"/y;
const LITERAL = /'''[^']*(?:'{1,2}(?!')[^']*)*'{3,5}|'[^'\n]*'/y;
const BARE_KEY = /[\w-]+/y;
/** A number, date or boolean; a date may have a blank before its time. */
const BARE_VALUE = /[^\s,\]}#]+(?: \d[^\s,\]}#]*)?/y;

/**
 * Finds the places of the keys and values of a TOML document, which smol-toml does not tell. Only for text that
 * smol-toml has accepted: the grammar is walked, not checked, and what is not found is simply not in the map.
 */
class TomlPlaces {
  readonly places = new Map<string, TomlPlace>();
  readonly #text: string;
  readonly #tableCounts = new Map<string, number>();
  #at = 0;

  constructor(text: string) {
    this.#text = text;
    this.#document();
  }

  #document(): void {
    let table: (string | number)[] = [];
    for (this.#take(VOID); this.#at < this.#text.length; this.#take(VOID)) {
      const before = this.#at;
      if (this.#text[this.#at] === '[') table = this.#header();
      else this.#assignment(table);
      if (this.#at === before) return;
    }
  }

  /** `[a.b]` or `[[a.b]]`. Every part of the name is a place, so that a server's table is found by its name. */
  #header(): (string | number)[] {
    const start = this.#at;
    const isArray = this.#text[start + 1] === '[';
    this.#at += isArray ? 2 : 1;
    const parts = this.#key();
    this.#take(/\]{1,2}/y);
    let path: (string | number)[] = [];
    parts.forEach((part, index) => {
      path = [...path, part.name];
      const last = index === parts.length - 1;
      this.#note(path, part.span, last && !isArray ? { start, end: this.#at } : part.span);
      const id = pathId(path);
      if (last && isArray) {
        const count = this.#tableCounts.get(id) ?? 0;
        this.#tableCounts.set(id, count + 1);
        path = [...path, count];
        this.#note(path, part.span, { start, end: this.#at });
      } else if (this.#tableCounts.has(id)) {
        path = [...path, this.#tableCounts.get(id)! - 1];
      }
    });
    return path;
  }

  /** `a.b = value`, in a table or an inline table. */
  #assignment(table: readonly (string | number)[]): void {
    const parts = this.#key();
    this.#take(/=[ \t]*/y);
    const path = [...table, ...parts.map((part) => part.name)];
    const value = this.#value(path);
    parts.forEach((part, index) => {
      const last = index === parts.length - 1;
      this.#note([...table, ...parts.slice(0, index + 1).map(({ name }) => name)], part.span, last ? value : part.span);
    });
  }

  #value(path: readonly (string | number)[]): TextSpan {
    const start = this.#at;
    const first = this.#text[start];
    if (first === '[') this.#array(path);
    else if (first === '{') this.#items('}', () => this.#assignment(path));
    else if (this.#string() === '') this.#take(BARE_VALUE);
    return { start, end: this.#at };
  }

  #array(path: readonly (string | number)[]): void {
    this.#items(']', (index) => {
      const item = [...path, index];
      const span = this.#value(item);
      this.#note(item, span, span);
    });
  }

  #items(close: string, read: (index: number) => void): void {
    this.#at++;
    for (let index = 0; ; index++) {
      this.#take(VOID_OR_COMMA);
      const before = this.#at;
      if (before >= this.#text.length || this.#text[before] === close) break;
      read(index);
      if (this.#at === before) return;
    }
    this.#at++;
  }

  #key(): { name: string; span: TextSpan }[] {
    const parts: { name: string; span: TextSpan }[] = [];
    do {
      this.#take(BLANK);
      const start = this.#at;
      const quoted = this.#string();
      const name = quoted === '' ? this.#take(BARE_KEY) : keyText(quoted);
      parts.push({ name, span: { start, end: this.#at } });
      this.#take(BLANK);
    } while (this.#take(/\./y) !== '');
    return parts;
  }

  #string(): string {
    return this.#take(BASIC) || this.#take(LITERAL);
  }

  #note(path: readonly (string | number)[], key: TextSpan, value: TextSpan): void {
    const id = pathId(path);
    if (!this.places.has(id)) this.places.set(id, { key, value });
  }

  /** Moves over what the pattern matches here, and returns it. */
  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const taken = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += taken.length;
    return taken;
  }
}

/** A quoted key; the escapes of TOML's basic strings that JSON does not have are left as they are. */
function keyText(written: string): string {
  if (written.startsWith("'")) return written.slice(1, -1);
  try {
    return JSON.parse(written) as string;
  } catch {
    return written.slice(1, -1);
  }
}
