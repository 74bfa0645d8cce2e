import { encodeHeaders } from '../client/header-block.ts';
import { NO_SNIFFING } from '../context/refusal.ts';
import { nodeHttp } from '../node-http.ts';

/** The heads of answers on the fast path, as `node:http` would write them. Caches the `Date` line for a second. */
export class AnswerHeads {
  readonly #keepAlive: string;
  #second = 0;
  #date = '';

  constructor(keepAliveMs: number, maxRequests: number) {
    const seconds = Math.floor(keepAliveMs / 1_000);
    this.#keepAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${seconds}, max=${maxRequests}\r\n`;
  }

  /** The head of an answer with a body of this length; without a type there is no body. */
  whole(status: number, type: string | null, length: number, headers: readonly string[], keep: boolean): string {
    const framing = status === 204 ? '' : `Content-Length: ${length}\r\n`;
    const begin = type === null ? framing : `Content-Type: ${type}\r\n${framing}`;
    return statusLine(status) + begin + this.#rest(headers, keep) + END;
  }

  /** The head of a successful answer in chunks. */
  chunked(headers: readonly string[], keep: boolean): string {
    return `${OK}${this.#rest(headers, keep)}Transfer-Encoding: chunked\r\n${END}`;
  }

  #rest(headers: readonly string[], keep: boolean): string {
    const own = headers.length === 0 ? '' : encodeHeaders(headers);
    return SAFE + own + this.#dateLine() + (keep ? this.#keepAlive : CLOSE);
  }

  #dateLine(): string {
    const now = Date.now();
    if (now < this.#second || now >= this.#second + 1_000) {
      this.#second = now - (now % 1_000);
      this.#date = `Date: ${new Date(now).toUTCString()}\r\n`;
    }
    return this.#date;
  }
}

function statusLine(status: number): string {
  return status === 200 ? OK : `HTTP/1.1 ${status} ${nodeHttp.STATUS_CODES[status] ?? 'Unknown'}\r\n`;
}

const OK = 'HTTP/1.1 200 OK\r\n';
const SAFE = `${NO_SNIFFING.join(': ')}\r\n`;
const CLOSE = 'Connection: close\r\n';
const END = '\r\n';
