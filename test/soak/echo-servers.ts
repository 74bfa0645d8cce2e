import { type ChildProcess, spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { echoProblem } from '../../bench/load/answers.ts';
import { HttpSocket } from '../../bench/load/http-socket.ts';
import type { Job } from '../../bench/load/job.ts';
import { Messages } from '../../bench/load/messages.ts';

const FOLDER = resolve(import.meta.dirname, '../../bench/upstream');

/** The lean server of the benchmark on standard streams, as a definition. */
export function echoPipe(more: Record<string, unknown> = {}): Record<string, unknown> {
  return { command: process.execPath, args: [resolve(FOLDER, 'stdio.ts'), '2'], isolation: 'shared', ...more };
}

/** The same behind a URL, as a process. */
export class EchoRemote {
  readonly url: string;
  readonly #child: ChildProcess;

  static async start(era: 'stateful' | 'stateless'): Promise<EchoRemote> {
    const child = spawn(process.execPath, [resolve(FOLDER, 'http.ts'), era, '2'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const port = await new Promise<string>((done) => child.stdout.once('data', (text) => done(String(text).trim())));
    return new EchoRemote(child, `http://127.0.0.1:${/\d+/.exec(port)![0]}/mcp`);
  }

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

const REFUSED = 'refused';

/** Calls one server's `echo`, one after the other, over one connection, and looks at every answer. */
export class EchoCaller {
  /** The first few wrong answers, in words. */
  readonly wrong: string[] = [];
  calls = 0;
  wrongs = 0;
  /** Calls that were refused because the gateway is overloaded (503): a correct refusal, but not an answer. */
  refusals = 0;
  readonly #socket: HttpSocket;
  readonly #messages: Messages;

  constructor(url: URL, server: string) {
    this.#socket = new HttpSocket(url);
    this.#messages = new Messages({
      url: url.href,
      era: 'stateless',
      tool: 'echo',
      toolPrefix: `${server}__`,
    } as Job);
  }

  /** Resolves with the duration of the call in milliseconds. */
  async call(text: string): Promise<number> {
    const id = ++this.calls;
    const before = performance.now();
    const problem = await new Promise<string | null>((done) =>
      this.#socket.send(this.#messages.call(id, text), (reply, lost) => {
        if (lost !== '') done(lost);
        else if (reply.status === 503) done(REFUSED);
        else if (reply.status !== 200) done(`HTTP ${reply.status}`);
        else done(echoProblem(reply.body(), id, text));
      }),
    );
    if (problem === REFUSED) this.refusals++;
    else if (problem !== null) {
      this.wrongs++;
      if (this.wrong.length < 5) this.wrong.push(problem);
    }
    return performance.now() - before;
  }

  close(): void {
    this.#socket.close();
  }
}
