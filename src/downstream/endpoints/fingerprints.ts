import { fingerprint } from '../../protocol/canonical.ts';

const MAX_ENTRIES = 512;
/** Longer texts are digested every time, so that clients do not decide how much memory the cache takes. */
const MAX_TEXT = 8 * 1024;

/**
 * Cache of capability fingerprints by their raw text. A stateless client sends the same text with every request, so its
 * digest is computed once. Evicts the least recently used text.
 */
export class Fingerprints {
  readonly #known = new Map<string, string>();
  #lastText = '{}';
  #last = fingerprint('{}');

  of(capabilities: string): string {
    if (capabilities === this.#lastText) return this.#last;
    let digest = this.#known.get(capabilities);
    if (digest === undefined) {
      digest = fingerprint(capabilities);
      if (capabilities.length > MAX_TEXT) return digest;
      if (this.#known.size >= MAX_ENTRIES) this.#known.delete(this.#known.keys().next().value!);
    } else this.#known.delete(capabilities);
    this.#known.set(capabilities, digest);
    this.#lastText = capabilities;
    this.#last = digest;
    return digest;
  }
}
