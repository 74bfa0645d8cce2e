/** Headers of a response, names in lower case, in order of arrival. A flat list, because responses have few headers. */
export class ResponseHeaders {
  /** Name and value alternating. */
  readonly #pairs: readonly string[];
  #mediaType: string | null = null;

  constructor(pairs: readonly string[]) {
    this.#pairs = pairs;
  }

  /** The first value of the header; `name` in lower case. */
  get(name: string): string | undefined {
    const pairs = this.#pairs;
    for (let i = 0; i < pairs.length; i += 2) if (pairs[i] === name) return pairs[i + 1];
    return undefined;
  }

  all(name: string): string[] {
    const values: string[] = [];
    const pairs = this.#pairs;
    for (let i = 0; i < pairs.length; i += 2) if (pairs[i] === name) values.push(pairs[i + 1]!);
    return values;
  }

  /** The media type in lower case without parameters; empty if there is none. */
  get mediaType(): string {
    this.#mediaType ??= mediaTypeOf(this.get('content-type') ?? '');
    return this.#mediaType;
  }

  get pairs(): readonly string[] {
    return this.#pairs;
  }
}

function mediaTypeOf(value: string): string {
  const end = value.indexOf(';');
  return (end < 0 ? value : value.slice(0, end)).trim().toLowerCase();
}
