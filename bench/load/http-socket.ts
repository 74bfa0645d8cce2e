import { connect, type Socket } from 'node:net';
import { HttpReply } from './http-reply.ts';

/** One keep-alive connection with one request in flight at a time; reconnects when the server closes it between two. */
export class HttpSocket {
  readonly #host: string;
  readonly #port: number;
  readonly #reply = new HttpReply();
  #socket: Socket | null = null;
  #done: ((reply: HttpReply, problem: string) => void) | null = null;

  constructor(url: URL) {
    this.#host = url.hostname;
    this.#port = Number(url.port);
  }

  /** `done` gets the reply, valid until the next request, and the problem, '' if there is none. */
  send(bytes: string, done: (reply: HttpReply, problem: string) => void): void {
    this.#done = done;
    this.#reply.reset();
    this.#socket ??= this.#open();
    this.#socket.write(bytes);
  }

  request(bytes: string): Promise<HttpReply> {
    return new Promise((resolve, reject) =>
      this.send(bytes, (reply, problem) => (problem === '' ? resolve(reply) : reject(new Error(problem)))),
    );
  }

  close(): void {
    this.#done = null;
    this.#socket?.destroy();
    this.#socket = null;
  }

  #open(): Socket {
    const socket = connect(this.#port, this.#host);
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => {
      if (!this.#reply.push(chunk)) return;
      if (this.#reply.closing) this.#drop(socket);
      this.#finish('');
    });
    socket.on('error', (error) => this.#lost(socket, error.message));
    socket.on('close', () => this.#lost(socket, 'closed by the server'));
    return socket;
  }

  #lost(socket: Socket, problem: string): void {
    if (this.#socket !== socket) return;
    this.#drop(socket);
    this.#finish(problem);
  }

  #drop(socket: Socket): void {
    this.#socket = null;
    socket.destroy();
  }

  #finish(problem: string): void {
    const done = this.#done;
    this.#done = null;
    done?.(this.#reply, problem);
  }
}
