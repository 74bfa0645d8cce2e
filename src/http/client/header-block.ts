const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Request headers encoded once for many requests. CR, LF and NUL are refused, so that no value can add headers. */
export class HeaderBlock {
  /** `name: value\r\n` for each header, in latin1. */
  readonly text: string;
  /** The client's: the last whole head made with this block, and the request line, body length and headers it is for. */
  head = '';
  headLine = '';
  headBytes = -1;
  headOwn: readonly string[] = [];

  /** Name and value alternating, behind what is `encoded` already. Throws TypeError, without the value, when a name or value is not valid. */
  constructor(pairs: readonly string[], encoded = '') {
    this.text = encoded + encodeHeaders(pairs);
  }
}

export function encodeHeaders(pairs: readonly string[]): string {
  // One flat string in the end: what is added up piece by piece stays a tree of all its pieces.
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
