/** Headers of a response, names in lower case, in order of arrival. A flat list, because responses have few headers. */
export class ResponseHeaders {
  /** Name and value alternating. */
  readonly pairs: readonly string[];
  #mediaType: string | null = null;

  constructor(pairs: readonly string[]) {
    this.pairs = pairs;
  }

  /** The first value of the header; `name` in lower case. */
  get(name: string): string | undefined {
    const { pairs } = this;
    for (let i = 0; i < pairs.length; i += 2) if (pairs[i] === name) return pairs[i + 1];
    return undefined;
  }

  /** The media type in lower case without parameters; empty if there is none. */
  get mediaType(): string {
    this.#mediaType ??= mediaTypeOf(this.get('content-type') ?? '');
    return this.#mediaType;
  }
}

function mediaTypeOf(value: string): string {
  const end = value.indexOf(';');
  return (end < 0 ? value : value.slice(0, end)).trim().toLowerCase();
}
