import { MASK, SHORTEST_SECRET } from '../model/secret.ts';

/** Lines of a multi-line value, such as a PEM, are masked one by one. Shorter lines are braces and the like. */
const SHORTEST_LINE = 16;
/** Beyond this number the oldest values are forgotten. Every reading of the configuration adds its values again. */
const MAX_SECRETS = 10_000;
const FILTER_BITS = 16;

/**
 * Masks every known secret in text before it leaves the process. It knows values, not names, so it also catches a secret that
 * a server prints on its standard error or repeats in an error message: plain, escaped for JSON, percent- or form-encoded,
 * in hexadecimal, in base64 at any offset of the encoded text, and line by line.
 *
 * It ignores values of less than six characters, which would mask half of every log. The cost is one table look-up per
 * character, however many secrets there are.
 */
export class Scrubber {
  /** The encodings of each secret. */
  readonly #secrets = new Map<string, readonly string[]>();
  /** Encodings by their first characters, then by their length, each with the number of secrets that have it. */
  readonly #byStart = new Map<string, Map<number, Map<string, number>>>();
  /** Marks the hashes of the first three characters of all encodings. */
  readonly #filter = new Uint8Array(1 << FILTER_BITS);

  add(secret: string): void {
    const known = this.#secrets.get(secret);
    if (known === undefined && secret.length < SHORTEST_SECRET) return;
    this.#secrets.delete(secret);
    this.#secrets.set(secret, known ?? this.#learn(secret));
    if (this.#secrets.size <= MAX_SECRETS) return;
    const [oldest] = this.#secrets.keys();
    this.#forget(oldest!);
  }

  scrub(text: string): string {
    let scrubbed = '';
    let from = 0;
    const last = this.#secrets.size === 0 ? -1 : text.length - SHORTEST_SECRET;
    for (let i = 0; i <= last; i++) {
      if (this.#filter[slot(text, i)] === 0) continue;
      let longest = 0;
      for (const [length, spellings] of this.#byStart.get(text.slice(i, i + SHORTEST_SECRET)) ?? []) {
        if (length > longest && spellings.has(text.slice(i, i + length))) longest = length;
      }
      if (longest === 0) continue;
      scrubbed += text.slice(from, i) + MASK;
      from = i + longest;
      i = from - 1;
    }
    return from === 0 ? text : scrubbed + text.slice(from);
  }

  /** As `scrub` for JSON, in string values only: numbers and member names stay, so that the JSON stays valid. */
  scrubJson(json: string): string {
    let scrubbed = '';
    let from = 0;
    for (let open = json.indexOf('"'); open >= 0; open = json.indexOf('"', from)) {
      let close = json.indexOf('"', open + 1);
      while (close >= 0 && isEscaped(json, close)) close = json.indexOf('"', close + 1);
      if (close < 0) break;
      const isName = /^\s{0,16}:/.test(json.slice(close + 1, close + 18));
      const value = json.slice(open, close + 1);
      scrubbed += json.slice(from, open) + (isName ? value : this.scrub(value));
      from = close + 1;
    }
    return scrubbed + json.slice(from);
  }

  #learn(secret: string): readonly string[] {
    const spellings = spellingsOf(secret);
    for (const spelling of spellings) {
      const start = spelling.slice(0, SHORTEST_SECRET);
      const byLength = this.#byStart.get(start) ?? new Map<number, Map<string, number>>();
      this.#byStart.set(start, byLength);
      const same = byLength.get(spelling.length) ?? new Map<string, number>();
      byLength.set(spelling.length, same.set(spelling, (same.get(spelling) ?? 0) + 1));
      this.#filter[slot(spelling, 0)] = 1;
    }
    return spellings;
  }

  #forget(secret: string): void {
    for (const spelling of this.#secrets.get(secret) ?? []) {
      const start = spelling.slice(0, SHORTEST_SECRET);
      const byLength = this.#byStart.get(start);
      const same = byLength?.get(spelling.length);
      const others = (same?.get(spelling) ?? 0) - 1;
      if (others > 0) same!.set(spelling, others);
      else same?.delete(spelling);
      if (same?.size === 0) byLength!.delete(spelling.length);
      if (byLength?.size === 0) this.#byStart.delete(start);
    }
    this.#secrets.delete(secret);
  }
}

function slot(text: string, at: number): number {
  const mixed = text.charCodeAt(at) * 7919 + text.charCodeAt(at + 1) * 263 + text.charCodeAt(at + 2) * 31;
  return mixed & ((1 << FILTER_BITS) - 1);
}

function isEscaped(json: string, at: number): boolean {
  let backslashes = 0;
  while (json[at - 1 - backslashes] === '\\') backslashes++;
  return backslashes % 2 === 1;
}

/** The common encodings of a secret, each once. */
function spellingsOf(secret: string): string[] {
  const spellings = new Set<string>();
  const lines = secret.split(/\r?\n|\\n/).map((line) => line.trim());
  const parts = lines.filter((line) => line.length >= SHORTEST_LINE && !line.startsWith('-----'));
  for (const part of new Set([secret, ...parts])) {
    const bytes = Buffer.from(part);
    const percent = encodeURIComponent(part);
    const form = new URLSearchParams({ '': part }).toString().slice(1);
    const hex = bytes.toString('hex');
    for (const spelling of [part, JSON.stringify(part).slice(1, -1), percent, form, hex, hex.toUpperCase()])
      spellings.add(spelling);
    for (const encoded of [percent, form]) spellings.add(encoded.replaceAll(/%../g, (pair) => pair.toLowerCase()));
    for (const before of [0, 1, 2]) {
      const encoded = withinBase64(bytes, before);
      spellings.add(encoded);
      spellings.add(encoded.replaceAll('+', '-').replaceAll('/', '_'));
    }
  }
  return [...spellings].filter((spelling) => spelling.length >= SHORTEST_SECRET);
}

/** The part of the base64 text that depends only on `bytes`, if `before` bytes precede them in their group of three. */
function withinBase64(bytes: Buffer, before: number): string {
  const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
  return encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
}
