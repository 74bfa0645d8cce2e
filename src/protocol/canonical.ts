import { createHash } from 'node:crypto';
import { decodeString } from './fields.ts';
import { skipSpace, skipString, skipValue } from './skip.ts';

/**
 * Canonical JSON text after the manner of RFC 8785: no white space, members sorted by UTF-16 code units, strings in
 * their shortest form; but number lexemes stay as written, because `1.0` and `12345678901234567890` are not ours to
 * round. Of a repeated key the last one counts.
 */
export function canonical(json: Buffer | string): string {
  const bytes = typeof json === 'string' ? Buffer.from(json) : json;
  return new CanonicalWriter(bytes).value(0);
}

/** A short digest of a capabilities object; `{}` for the empty one, so that it can be read in logs. */
export function fingerprint(capabilitiesJson: string): string {
  const text = canonical(capabilitiesJson === '' ? '{}' : capabilitiesJson);
  return text === '{}' ? text : createHash('sha256').update(text).digest('hex').slice(0, 16);
}

/** Deeper values are taken as they are written: nobody compares those, and recursion has to end. */
const MAX_DEPTH = 512;

/** One pass over the bytes: linear whatever the nesting. */
class CanonicalWriter {
  readonly #bytes: Buffer;
  #at: number;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
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
    return decoded === null ? this.#bytes.toString('utf8', start, this.#at) : JSON.stringify(decoded);
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
      members.set(decodeString(this.#bytes, start, end) ?? '', this.value(depth + 1));
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

  /** Over one byte and the space after it. */
  #step(): void {
    this.#at = skipSpace(this.#bytes, this.#at + 1);
  }
}
