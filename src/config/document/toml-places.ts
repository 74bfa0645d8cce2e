import type { TextSpan } from '../problem/problem.ts';

interface TomlPlace {
  key: TextSpan;
  value: TextSpan;
}

/** The path of keys and array indexes as one string; the separator cannot stand in a TOML key unescaped. */
export function pathId(path: readonly (string | number)[]): string {
  return path.join('\u0000');
}

/**
 * Finds where the keys and values of a TOML document stand, which smol-toml does not tell. Only for text that
 * smol-toml has accepted: the grammar is walked, not checked, and what is not found is simply not in the map.
 */
export class TomlPlaces {
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
    for (this.#skipVoid(); this.#at < this.#text.length; this.#skipVoid()) {
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
    this.#at = this.#after(']', isArray ? 2 : 1);
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
    this.#at = this.#after('=', 1);
    this.#skipBlank();
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
    if (first === '"' || first === "'") this.#string();
    else if (first === '[') this.#array(path);
    else if (first === '{') this.#inlineTable(path);
    else this.#at = start + /[^\s,\]}#]*(?: \d[^\s,\]}#]*)?/y.exec(this.#text.slice(start, start + 200))![0].length;
    return { start, end: this.#at };
  }

  #array(path: readonly (string | number)[]): void {
    this.#at++;
    for (let index = 0; this.#at < this.#text.length; index++) {
      this.#skipVoid(',');
      if (this.#text[this.#at] === ']') break;
      const before = this.#at;
      const item = [...path, index];
      const span = this.#value(item);
      if (this.#at === before) return;
      this.#note(item, span, span);
    }
    this.#at++;
  }

  #inlineTable(path: readonly (string | number)[]): void {
    this.#at++;
    while (this.#at < this.#text.length) {
      this.#skipVoid(',');
      if (this.#text[this.#at] === '}') break;
      const before = this.#at;
      this.#assignment(path);
      if (this.#at === before) return;
    }
    this.#at++;
  }

  #key(): { name: string; span: TextSpan }[] {
    const parts: { name: string; span: TextSpan }[] = [];
    for (;;) {
      this.#skipBlank();
      const start = this.#at;
      const quote = this.#text[start];
      if (quote === '"' || quote === "'") this.#string();
      else while (this.#at < this.#text.length && /[\w-]/.test(this.#text[this.#at]!)) this.#at++;
      const written = this.#text.slice(start, this.#at);
      parts.push({ name: quote === '"' || quote === "'" ? keyText(written) : written, span: { start, end: this.#at } });
      this.#skipBlank();
      if (this.#text[this.#at] !== '.') return parts;
      this.#at++;
    }
  }

  #string(): void {
    const quote = this.#text[this.#at]!;
    const triple = this.#text.startsWith(quote.repeat(3), this.#at);
    this.#at += triple ? 3 : 1;
    while (this.#at < this.#text.length) {
      const character = this.#text[this.#at]!;
      if (character === '\\' && quote === '"') this.#at += 2;
      else if (character !== quote) this.#at++;
      else if (!triple) return void this.#at++;
      else if (this.#text.startsWith(quote.repeat(3), this.#at)) {
        // Up to two quotes may stand right before the closing three.
        this.#at += 3;
        while (this.#text[this.#at] === quote) this.#at++;
        return;
      } else this.#at++;
    }
  }

  #note(path: readonly (string | number)[], key: TextSpan, value: TextSpan): void {
    const id = pathId(path);
    if (!this.places.has(id)) this.places.set(id, { key, value });
  }

  #after(character: string, length: number): number {
    const found = this.#text.indexOf(character, this.#at);
    return found < 0 ? this.#text.length : found + length;
  }

  #skipBlank(): void {
    while (this.#text[this.#at] === ' ' || this.#text[this.#at] === '\t') this.#at++;
  }

  /** White space, line breaks and comments, and `also`. */
  #skipVoid(also = ''): void {
    for (; this.#at < this.#text.length; this.#at++) {
      const character = this.#text[this.#at]!;
      if (character === '#') {
        const end = this.#text.indexOf('\n', this.#at);
        this.#at = end < 0 ? this.#text.length - 1 : end;
      } else if (!/\s/.test(character) && character !== also) return;
    }
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
