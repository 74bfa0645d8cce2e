/**
 * A process that calls one tool again and again, by four callers, between the messages `go` and `stop` of its parent, and
 * then reports the number of answers: the cost of reading the output of a bad server must not disturb the measuring process.
 * Argument: a `Provocation` as JSON.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpReply } from '../../bench/load/http-reply.ts';

export interface Provocation {
  readonly url: string;
  /** Null: it calls nothing and only computes. */
  readonly tool: string | null;
  readonly args: Record<string, unknown>;
}

const CALLERS = 4;
const PAUSE_MS = 5;
const READ_BYTES = 256 * 1024;
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'provoker', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

const { url, tool, args } = JSON.parse(process.argv[2]!) as Provocation;
const { host, hostname, port, pathname } = new URL(url);
let running = false;
let calls = 0;
let answers = 0;

/**
 * One connection. It reads all data into the same memory and discards it: thousands of fresh pages for each answer would
 * keep the kernel busy for milliseconds at a time, which no priority of this process shortens.
 */
class Caller {
  readonly #memory = Buffer.allocUnsafe(READ_BYTES);
  readonly #reply = new HttpReply();
  #socket: Socket | null = null;
  #finished = (): void => {};

  async live(name: string): Promise<void> {
    for (;;) {
      if (running) await this.#call(name);
      await sleep(PAUSE_MS);
    }
  }

  #call(name: string): Promise<void> {
    const n = ++calls;
    const params = { name, arguments: { call: `provoked-${process.pid}-${n}`, ...args }, _meta: META };
    const body = JSON.stringify({ jsonrpc: '2.0', id: n, method: 'tools/call', params });
    const head = [
      `POST ${pathname} HTTP/1.1`,
      `host: ${host}`,
      'content-type: application/json',
      'accept: application/json, text/event-stream',
      'mcp-protocol-version: 2026-07-28',
      'mcp-method: tools/call',
      `mcp-name: ${name}`,
      `content-length: ${Buffer.byteLength(body)}`,
    ];
    return new Promise((resolve) => {
      this.#finished = resolve;
      this.#reply.reset();
      this.#socket ??= this.#open();
      this.#socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
    });
  }

  #open(): Socket {
    const callback = (bytes: number): boolean => {
      const read = this.#memory.subarray(0, bytes);
      const counted = this.#reply.header('content-length') !== null;
      // The reply keeps chunked data until the data that follows, so it gets a copy.
      if (this.#reply.push(counted ? read : Buffer.from(read))) {
        answers++;
        this.#finished();
      }
      return true;
    };
    const socket = connect({ host: hostname, port: Number(port), onread: { buffer: this.#memory, callback } });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#socket = null;
      this.#finished();
    });
    return socket;
  }
}

process.on('message', (message) => {
  running = message === 'go';
  // It computes until it is killed.
  while (running && tool === null);
  if (!running) process.send?.(answers);
});
process.on('disconnect', () => process.exit(0));
if (tool !== null) for (let i = 0; i < CALLERS; i++) void new Caller().live(tool);
process.send?.('ready');
