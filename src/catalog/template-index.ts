import type { UriTemplate } from '../protocol/uri-template.ts';

interface Entry {
  readonly template: UriTemplate;
  readonly server: string;
}

/** So much of the literal beginning of a template is looked up; the rest is compared. */
const INDEXED = 64;

/** Templates of all servers by their literal beginning, so that a URI is compared only with those that it can match. */
export class TemplateIndex {
  /** Lower ranks are more specific; of equally specific ones the first has the lower rank. */
  readonly #byPrefix: ReadonlyMap<string, readonly (Entry & { readonly rank: number })[]>;
  readonly #lengths: readonly number[];

  constructor(entries: readonly Entry[]) {
    const ranked = entries
      .toSorted((a, b) => b.template.literalLength - a.template.literalLength)
      .map((entry, rank) => ({ ...entry, rank }));
    this.#byPrefix = Map.groupBy(ranked, ({ template }) => template.prefix.slice(0, INDEXED));
    this.#lengths = [...new Set([...this.#byPrefix.keys()].map((prefix) => prefix.length))];
  }

  /** The server of the most specific template that matches. */
  find(uri: string): string | null {
    let rank = Number.POSITIVE_INFINITY;
    let server: string | null = null;
    for (const length of this.#lengths) {
      for (const entry of this.#byPrefix.get(uri.slice(0, length)) ?? []) {
        if (entry.rank > rank) break;
        if (!entry.template.matches(uri)) continue;
        ({ rank, server } = entry);
        break;
      }
    }
    return server;
  }
}
