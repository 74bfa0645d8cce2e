import { bigProblem, echoProblem, listProblem, readPage } from './answers.ts';
import type { HttpReply } from './http-reply.ts';
import { HttpSocket } from './http-socket.ts';
import type { Job } from './job.ts';
import { Messages } from './messages.ts';

let lastId = 0;

/** One MCP client of the load: a session (where the era has them) and the operations that are measured. */
export class Client {
  readonly #job: Job;
  readonly #url: URL;
  readonly messages: Messages;

  constructor(job: Job) {
    this.#job = job;
    this.#url = new URL(job.url);
    this.messages = new Messages(job);
  }

  /** Opens the session over the socket. */
  async open(socket: HttpSocket): Promise<void> {
    if (this.#job.era === 'stateless') return;
    const reply = await socket.request(this.messages.initialize());
    if (reply.status !== 200) throw new Error(`initialize: ${reply.status} ${reply.body()}`);
    this.messages.session(reply.header('mcp-session-id') ?? '');
    const accepted = await socket.request(this.messages.initialized());
    if (accepted.status >= 300) throw new Error(`initialized: ${accepted.status} ${accepted.body()}`);
  }

  async end(socket: HttpSocket): Promise<string | null> {
    const { status } = await socket.request(this.messages.end());
    return status < 300 ? null : `DELETE answered ${status}`;
  }

  socket(): HttpSocket {
    return new HttpSocket(this.#url);
  }

  /** One tool call; `done` gets null or what is wrong with the answer. No promise: this is the measured path. */
  call(socket: HttpSocket, done: (problem: string | null) => void): void {
    const id = ++lastId;
    const { tool } = this.#job;
    const text = tool === 'echo' ? `echo ${id} of ${process.pid}` : '';
    socket.send(this.messages.call(id, text), (reply, problem) => {
      if (problem !== '') done(problem);
      else if (reply.status !== 200) done(statusProblem(reply));
      else done(tool === 'echo' ? echoProblem(reply.body(), id, text) : bigProblem(reply.body(), id, tool));
    });
  }

  /** The whole list, page by page. */
  list(socket: HttpSocket, done: (problem: string | null) => void): void {
    this.#page(socket, '', [], done);
  }

  #page(socket: HttpSocket, cursor: string, names: unknown[], done: (problem: string | null) => void): void {
    const id = ++lastId;
    socket.send(this.messages.list(id, cursor), (reply, problem) => {
      if (problem !== '') return done(problem);
      if (reply.status !== 200) return done(statusProblem(reply));
      const page = readPage(reply.body(), id);
      if (typeof page === 'string') return done(page);
      names.push(...page.names);
      if (page.next === '') done(listProblem(names, this.#job.tools));
      else this.#page(socket, page.next, names, done);
    });
  }
}

function statusProblem(reply: HttpReply): string {
  return `HTTP ${reply.status}: ${reply.body().toString('utf8', 0, 200)}`;
}
