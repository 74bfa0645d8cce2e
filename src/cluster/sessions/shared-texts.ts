const MAX_TEXTS = 1_024;
/** Longer ones stay as they are: what clients say must not decide what is kept. */
const MAX_LENGTH = 8 * 1024;

/** Texts that many records have in common, what clients of one make say of themselves above all: each is kept once. */
export class SharedTexts {
  readonly #texts = new Map<string, string>();

  /** An equal text. */
  of(text: string): string {
    const known = this.#texts.get(text);
    if (known !== undefined || text.length > MAX_LENGTH) return known ?? text;
    if (this.#texts.size >= MAX_TEXTS) this.#texts.clear();
    this.#texts.set(text, text);
    return text;
  }
}
