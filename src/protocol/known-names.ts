import { decodeString } from './fields.ts';

const NONE: readonly number[] = [];

/**
 * Finds keys that other JSON readers take for known member names: Go's `encoding/json` ignores case, and reads `ſ` as `s`
 * and the Kelvin sign as `k`.
 */
export class KnownNames {
  readonly #names: readonly string[];
  readonly #folded: readonly string[];
  readonly #byLength: (readonly number[])[] = [];

  constructor(names: readonly string[]) {
    this.#names = names;
    this.#folded = names.map((name) => name.toLowerCase());
    names.forEach((name, index) => {
      this.#byLength[name.length] = [...(this.#byLength[name.length] ?? NONE), index];
    });
  }

  /** The index of the name that the key equals; `-2 - index` if only the case differs; -1 if it is none of them. */
  find(bytes: Buffer, keyStart: number, keyEnd: number): number {
    const length = keyEnd - keyStart - 2;
    for (const index of this.#byLength[length] ?? NONE) {
      const folded = this.#folded[index]!;
      const name = this.#names[index]!;
      let exact = true;
      let i = 0;
      for (; i < length; i++) {
        const c = bytes[keyStart + 1 + i]!;
        if (c !== name.charCodeAt(i)) exact = false;
        const lower = c >= 0x41 && c <= 0x5a ? c | 0x20 : c;
        if (lower !== folded.charCodeAt(i)) break;
      }
      if (i === length) return exact ? index : -2 - index;
    }
    for (let i = keyStart + 1; i < keyEnd - 1; i++) {
      if (bytes[i]! >= 0x80 || bytes[i] === 0x5c) return this.#decoded(decodeString(bytes, keyStart, keyEnd) ?? '');
    }
    return -1;
  }

  nameOf(found: number): string {
    return this.#names[found < 0 ? -2 - found : found]!;
  }

  #decoded(key: string): number {
    const index = this.#folded.indexOf(key.replaceAll('ſ', 's').replaceAll('\u212a', 'k').toLowerCase());
    return index < 0 || this.#names[index] === key ? index : -2 - index;
  }
}

/** The text of a refusal of such a key. */
export function confusableKeyMessage(bytes: Buffer, keyStart: number, keyEnd: number, name: string): string {
  return `${bytes.toString('utf8', keyStart, keyEnd)} is written in another case than "${name}", for which servers may take it`;
}
