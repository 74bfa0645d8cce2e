import { fingerprint } from '../../protocol/canonical.ts';

const MAX_ENTRIES = 512;
/** Longer texts are digested every time: what a client sends must not decide what we keep. */
const MAX_TEXT = 8 * 1024;

/**
 * Fingerprints of capabilities by their raw text. A stateless client sends its capabilities with every request, in
 * the same words each time, so the digest is worked out once. Least recently used texts are forgotten.
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
