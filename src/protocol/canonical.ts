import { createHash } from 'node:crypto';
import { decodeString } from './fields.ts';
import { skipSpace, skipString, skipValue } from './skip.ts';

/** Canonical JSON as in RFC 8785, except that numbers stay as written (`1.0`). The last of repeated keys counts. */
export function canonical(json: Buffer | string): string {
  const bytes = typeof json === 'string' ? Buffer.from(json) : json;
  return new CanonicalWriter(bytes).value(0);
}

/** With one spelling for exact numbers; null if an object repeats a member, which readers interpret differently. */
export function canonicalExact(json: Buffer): string | null {
  const writer = new CanonicalWriter(json, true);
  const text = writer.value(0);
  return writer.ambiguous ? null : text;
}

/** A short digest of a capabilities object; `{}` for the empty one, so that it is readable in logs. */
export function fingerprint(capabilitiesJson: string): string {
  const text = canonical(capabilitiesJson === '' ? '{}' : capabilitiesJson);
  return text === '{}' ? text : createHash('sha256').update(text).digest('hex').slice(0, 16);
}

/** Deeper values stay as they are written, to limit the recursion. */
const MAX_DEPTH = 512;

/** One pass over the bytes: linear at any nesting. */
class CanonicalWriter {
  ambiguous = false;
  readonly #bytes: Buffer;
  readonly #exact: boolean;
  #at: number;

  constructor(bytes: Buffer, exact = false) {
    this.#bytes = bytes;
    this.#exact = exact;
    this.#at = skipSpace(bytes, 0);
  }

  value(depth: number): string {
    const first = this.#bytes[this.#at];
    if (depth < MAX_DEPTH && first === 0x7b) return this.#object(depth);
    if (depth < MAX_DEPTH && first === 0x5b) return this.#array(depth);
    const start = this.#at;
    const end = skipValue(this.#bytes, start, this.#bytes.length);
    this.#at = end < 0 ? this.#bytes.length : end;
    const decoded = first === 0x22 ? decodeString(this.#bytes, start, this.#at) : null;
    if (decoded !== null) return JSON.stringify(decoded);
    const written = this.#bytes.toString('utf8', start, this.#at);
    return this.#exact ? shortestNumber(written) : written;
  }

  #object(depth: number): string {
    const members = new Map<string, string>();
    this.#step();
    while (this.#bytes[this.#at] === 0x22) {
      const start = this.#at;
      const end = skipString(this.#bytes, start, this.#bytes.length);
      if (end < 0) break;
      this.#at = skipSpace(this.#bytes, end);
      if (this.#bytes[this.#at] !== 0x3a) break;
      this.#step();
      const key = decodeString(this.#bytes, start, end) ?? '';
      if (members.has(key)) this.ambiguous = true;
      members.set(key, this.value(depth + 1));
      this.#at = skipSpace(this.#bytes, this.#at);
      if (this.#bytes[this.#at] !== 0x2c) break;
      this.#step();
    }
    this.#step();
    const keys = [...members.keys()].sort();
    return `{${keys.map((key) => `${JSON.stringify(key)}:${members.get(key)}`).join(',')}}`;
  }

  #array(depth: number): string {
    const items: string[] = [];
    this.#step();
    while (this.#at < this.#bytes.length && this.#bytes[this.#at] !== 0x5d) {
      items.push(this.value(depth + 1));
      this.#at = skipSpace(this.#bytes, this.#at);
      if (this.#bytes[this.#at] !== 0x2c) break;
      this.#step();
    }
    this.#step();
    return `[${items.join(',')}]`;
  }

  #step(): void {
    this.#at = skipSpace(this.#bytes, this.#at + 1);
  }
}

/** Digits that a double holds exactly; longer numbers stay as they are written. */
const SAFE_DIGITS = 15;
/** Longer lexemes stay as they are written. */
const MAX_LEXEME = 64;

/** The number as RFC 8785 writes it if that rounds nothing; anything else as it is written. */
function shortestNumber(lexeme: string): string {
  if (lexeme.length > MAX_LEXEME || !/^-?\d/.test(lexeme)) return lexeme;
  const digits = lexeme
    .replace(/[eE].*$/, '')
    .replace(/[^0-9]/g, '')
    .replace(/^0+/, '');
  const value = Number(lexeme);
  if (!Number.isFinite(value) || digits.length > SAFE_DIGITS) return lexeme;
  return value === 0 ? '0' : String(value);
}
