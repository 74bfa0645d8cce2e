import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import type { Json } from './raw-http.ts';

/** One direction of standard streams: text written at one end is read at the other. */
interface Pipe {
  readonly write: Writable;
  readonly read: Readable;
}

/** A pipe of the operating system: both ends of a program that copies, which ends with the test. */
function osPipe(): Pipe {
  const child = spawn('cat', { stdio: ['pipe', 'pipe', 'inherit'] });
  const { stdin, stdout } = child as { stdin: Socket; stdout: Socket } & typeof child;
  for (const handle of [child, stdin, stdout]) handle.unref();
  return { write: stdin, read: stdout };
}

/** A local client's side of its server's standard streams. */
export class LinePipes {
  readonly input: Readable;
  readonly output: Writable;
  /** The client's own ends of both. */
  readonly ends: Pipe;
  readonly #lines: string[] = [];
  readonly #waiting: ((line: string) => void)[] = [];
  #rest = Buffer.alloc(0);

  constructor() {
    const [inward, outward] = [osPipe(), osPipe()];
    this.input = inward.read;
    this.output = outward.write;
    this.ends = { write: inward.write, read: outward.read };
    this.ends.read.on('data', (chunk: Buffer) => {
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
    this.ends.write.write(`${line}\n`);
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

  /** Ends the server's side, and returns the lines that were not read. */
  async rest(): Promise<readonly string[]> {
    const ended = once(this.ends.read, 'end');
    this.output.end();
    await ended;
    return this.#lines;
  }
}
