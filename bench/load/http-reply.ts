const HEAD_END = Buffer.from('\r\n\r\n');

/**
 * Reads one HTTP/1.1 response after another from the bytes of one connection: by length, in chunks, or without body.
 * Minimal, for known servers: it trusts them to send valid HTTP.
 */
export class HttpReply {
  status = 0;
  head = '';
  /** True when the server closes the connection after this response. */
  closing = false;
  #body: Buffer[] = [];
  #pending: Buffer = Buffer.alloc(0);
  #missing = -1;
  #chunked = false;

  /** Discards the finished response; no bytes of the next one can be there yet, since requests are not pipelined. */
  reset(): void {
    this.#body = [];
    this.#pending = Buffer.alloc(0);
    this.#missing = -1;
    this.#chunked = false;
    this.head = '';
  }

  body(): Buffer {
    return this.#body.length === 1 ? this.#body[0]! : Buffer.concat(this.#body);
  }

  header(name: string): string | null {
    return new RegExp(`^${name}: *(.*?)\\r?$`, 'im').exec(this.head)?.[1] ?? null;
  }

  /** True when the response is complete. */
  push(chunk: Buffer): boolean {
    if (this.head === '') {
      const all = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
      const end = all.indexOf(HEAD_END);
      if (end < 0) {
        this.#pending = all;
        return false;
      }
      this.#readHead(all.toString('latin1', 0, end + 2));
      this.#pending = Buffer.alloc(0);
      chunk = all.subarray(end + 4);
    }
    return this.#chunked ? this.#pushChunked(chunk) : this.#pushSized(chunk);
  }

  #readHead(head: string): void {
    this.head = head;
    this.status = Number(head.slice(9, 12));
    const lower = head.toLowerCase();
    this.closing = lower.includes('\r\nconnection: close');
    this.#chunked = lower.includes('\r\ntransfer-encoding: chunked');
    const at = lower.indexOf('\r\ncontent-length:');
    this.#missing = at < 0 ? 0 : Number.parseInt(lower.slice(at + 17), 10);
  }

  #pushSized(chunk: Buffer): boolean {
    if (chunk.length > 0) this.#body.push(chunk);
    this.#missing -= chunk.length;
    return this.#missing <= 0;
  }

  #pushChunked(chunk: Buffer): boolean {
    let rest = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    for (;;) {
      if (this.#missing > 0) {
        const part = rest.subarray(0, this.#missing);
        if (part.length > 0) this.#body.push(part);
        this.#missing -= part.length;
        rest = rest.subarray(part.length);
        if (this.#missing > 0) break;
        this.#missing = -2;
      }
      const line = rest.indexOf('\r\n');
      if (line < 0) break;
      // The data of a chunk is followed by an empty line, then by the next size.
      if (line > 0) {
        const size = Number.parseInt(rest.toString('latin1', 0, line), 16);
        if (size === 0) {
          // An empty line ends the body; unread, its bytes would precede the next response.
          if (rest.length >= line + 4) return true;
          break;
        }
        this.#missing = size;
      }
      rest = rest.subarray(line + 2);
    }
    this.#pending = rest;
    return false;
  }
}
