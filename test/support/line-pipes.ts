import { PassThrough } from 'node:stream';
import type { Json } from './raw-http.ts';

/** A local client's side of its server's standard streams. */
export class LinePipes {
  readonly input = new PassThrough();
  readonly output = new PassThrough();
  readonly #lines: string[] = [];
  readonly #waiting: ((line: string) => void)[] = [];
  #rest = Buffer.alloc(0);

  constructor() {
    this.output.on('data', (chunk: Buffer) => {
      this.#rest = Buffer.concat([this.#rest, chunk]);
      for (let end = this.#rest.indexOf(10); end >= 0; end = this.#rest.indexOf(10)) {
        const line = this.#rest.toString('utf8', 0, end);
        this.#rest = this.#rest.subarray(end + 1);
        const waiting = this.#waiting.shift();
        if (waiting === undefined) this.#lines.push(line);
        else waiting(line);
      }
    });
  }

  send(line: string): this {
    this.input.write(`${line}\n`);
    return this;
  }

  line(): Promise<string> {
    const line = this.#lines.shift();
    if (line !== undefined) return Promise.resolve(line);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  async message(): Promise<Json> {
    return JSON.parse(await this.line());
  }

  /** Lines that came and were not looked at. */
  get unread(): number {
    return this.#lines.length;
  }
}
