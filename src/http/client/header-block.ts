const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Request headers encoded once for many requests. Refuses CR, LF and NUL, so that no value can add headers. */
export class HeaderBlock {
  /** `name: value\r\n` for each header, in latin1. */
  readonly text: string;
  /** Written by the client: the last whole head with this block, and the request line, body length and headers it is for. */
  head = '';
  headLine = '';
  headBytes = -1;
  headOwn: readonly string[] = [];

  /** Name and value alternating, after `encoded`. Throws TypeError, which omits the value, if a name or value is not valid. */
  constructor(pairs: readonly string[], encoded = '') {
    this.text = encoded + encodeHeaders(pairs);
  }
}

export function encodeHeaders(pairs: readonly string[]): string {
  // Joined at once: a string that is concatenated piece by piece stays a tree of its pieces.
  const lines: string[] = [];
  for (let i = 0; i + 1 < pairs.length; i += 2) {
    const name = pairs[i]!;
    const value = pairs[i + 1]!;
    if (!TOKEN.test(name)) throw new TypeError(`not a header name: ${JSON.stringify(name.slice(0, 64))}`);
    if (!VALUE.test(value)) throw new TypeError(`the value of header ${name} has characters HTTP does not allow`);
    lines.push(name, ': ', value, '\r\n');
  }
  return lines.join('');
}
