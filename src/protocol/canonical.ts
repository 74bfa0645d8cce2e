import { createHash } from 'node:crypto';
import { decodeString } from './fields.ts';
import { skipSpace, skipString, skipValue } from './skip.ts';

/** Canonical JSON as in RFC 8785, except that numbers stay as written (`1.0`). The last of repeated keys counts. */
export function canonical(json: Buffer | string): string {
  const bytes = typeof json === 'string' ? Buffer.from(json) : json;
  return new CanonicalWriter(bytes).whole();
}

/** With one spelling for exact numbers; null if an object repeats a member, which readers interpret differently. */
export function canonicalExact(json: Buffer): string | null {
  const writer = new CanonicalWriter(json, true);
  const text = writer.whole();
  return writer.ambiguous ? null : text;
}

/** A short digest of a capabilities object; `{}` for the empty one, so that it is readable in logs. */
export function fingerprint(capabilitiesJson: string): string {
  const text = canonical(capabilitiesJson === '' ? '{}' : capabilitiesJson);
  return text === '{}' ? text : createHash('sha256').update(text).digest('hex').slice(0, 16);
}

/** Deeper values stay as they are written, to limit the recursion. */
const MAX_DEPTH = 512;
/** Pieces that are joined at once. */
const MAX_PIECES = 4_096;

/** Linear at any nesting: no value is scanned or copied again for each one that it is in. */
class CanonicalWriter {
  ambiguous = false;
  readonly #bytes: Buffer;
  readonly #exact: boolean;
  readonly #ends: Int32Array;
  #text = '';
  #pieces: string[] = [];

  constructor(bytes: Buffer, exact = false) {
    this.#bytes = bytes;
    this.#exact = exact;
    this.#ends = endsOf(bytes);
  }

  whole(): string {
    this.#value(this.#next(0), 0);
    return this.#text + this.#pieces.join('');
  }

  /** Writes the value that begins there; returns its end. */
  #value(start: number, depth: number): number {
    const bytes = this.#bytes;
    const first = bytes[start];
    if (depth < MAX_DEPTH && first === 0x7b) return this.#object(start, depth);
    if (depth < MAX_DEPTH && first === 0x5b) return this.#array(start, depth);
    const end = this.#end(start);
    const decoded = first === 0x22 ? decodeString(bytes, start, end) : null;
    const written = decoded === null ? bytes.toString('utf8', start, end) : JSON.stringify(decoded);
    this.#write(decoded === null && this.#exact ? shortestNumber(written) : written);
    return end;
  }

  #object(start: number, depth: number): number {
    const bytes = this.#bytes;
    const members = new Map<string, number>();
    let at = this.#next(start + 1);
    while (bytes[at] === 0x22) {
      const end = skipString(bytes, at, bytes.length);
      const colon = end < 0 ? -1 : this.#next(end);
      if (bytes[colon] !== 0x3a) break;
      const key = decodeString(bytes, at, end) ?? '';
      if (members.has(key)) this.ambiguous = true;
      at = this.#next(colon + 1);
      members.set(key, at);
      at = this.#next(this.#end(at));
      if (bytes[at] !== 0x2c) break;
      at = this.#next(at + 1);
    }
    let before = '{';
    for (const key of [...members.keys()].sort()) {
      this.#write(`${before}${JSON.stringify(key)}:`);
      this.#value(members.get(key)!, depth + 1);
      before = ',';
    }
    this.#write(before === '{' ? '{}' : '}');
    return this.#end(start);
  }

  #array(start: number, depth: number): number {
    const bytes = this.#bytes;
    let before = '[';
    for (let at = this.#next(start + 1); at < bytes.length && bytes[at] !== 0x5d; at = this.#next(at + 1)) {
      this.#write(before);
      before = ',';
      at = this.#next(this.#value(at, depth + 1));
      if (bytes[at] !== 0x2c) break;
    }
    this.#write(before === '[' ? '[]' : ']');
    return this.#end(start);
  }

  /** The end of the value that begins there. */
  #end(start: number): number {
    const bytes = this.#bytes;
    const first = bytes[start];
    if (first === 0x7b || first === 0x5b) return this.#ends[start]!;
    const end = skipValue(bytes, start, bytes.length);
    return end < 0 ? bytes.length : end;
  }

  #next(at: number): number {
    return skipSpace(this.#bytes, at);
  }

  #write(piece: string): void {
    if (this.#pieces.push(piece) < MAX_PIECES) return;
    this.#text += this.#pieces.join('');
    this.#pieces = [];
  }
}

/** Where each object and array ends, by its beginning. */
function endsOf(bytes: Buffer): Int32Array {
  const ends = new Int32Array(bytes.length);
  const open: number[] = [];
  for (let at = 0; at < bytes.length; at++) {
    const c = bytes[at];
    if (c === 0x22) {
      const end = skipString(bytes, at, bytes.length);
      if (end < 0) break;
      at = end - 1;
    } else if (c === 0x7b || c === 0x5b) open.push(at);
    else if ((c === 0x7d || c === 0x5d) && open.length > 0) ends[open.pop()!] = at + 1;
  }
  for (const start of open) ends[start] = bytes.length;
  return ends;
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
