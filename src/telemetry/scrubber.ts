const MASK = '[redacted]';
const SHORTEST_SECRET = 6;

/**
 * Takes every known live secret out of text before it leaves the process. It knows values, not names, so it also
 * catches a secret that a server prints on its standard error or repeats in an error message.
 *
 * Secrets shorter than six characters are not searched for: they would mask half of every log.
 */
export class Scrubber {
  readonly #secrets = new Set<string>();
  #pattern: RegExp | null = null;

  add(secret: string): void {
    if (secret.length < SHORTEST_SECRET || this.#secrets.has(secret)) return;
    this.#secrets.add(secret);
    // JSON-escaped and URL-encoded spellings leak just as well.
    const json = JSON.stringify(secret).slice(1, -1);
    if (json !== secret) this.#secrets.add(json);
    const url = encodeURIComponent(secret);
    if (url !== secret) this.#secrets.add(url);
    this.#pattern = null;
  }

  scrub(text: string): string {
    if (this.#secrets.size === 0) return text;
    this.#pattern ??= new RegExp(
      [...this.#secrets]
        .sort((a, b) => b.length - a.length)
        .map(escapeRegExp)
        .join('|'),
      'g',
    );
    return text.replace(this.#pattern, MASK);
  }
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
