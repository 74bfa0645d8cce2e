import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';

const KEPT_STDERR = 2_000;

interface Answer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: string;
}

/** A process of the bench whose functions are called from here. It ends with the bench. */
export class Worker<Functions extends object> {
  readonly process: ChildProcess;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  #ids = 0;
  /** The end of its standard error, and the number of lines that it wrote there. */
  #stderr = '';
  lines = 0;

  constructor(script: URL, nodeOptions: readonly string[] = []) {
    this.process = fork(script, { execArgv: [...nodeOptions], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
    this.process.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.lines += text.split('\n').length - 1;
      this.#stderr = (this.#stderr + text).slice(-KEPT_STDERR);
    });
    this.process.on('message', ({ id, result, error }: Answer) => {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) waiting?.resolve(result);
      else waiting?.reject(new Error(error));
    });
    this.process.once('exit', (code, signal) => {
      for (const { reject } of this.#waiting.values())
        reject(new Error(`${script} ended (${signal ?? code}): ${this.#stderr}`));
    });
  }

  call<Name extends keyof Functions & string>(
    name: Name,
    ...args: Functions[Name] extends (...args: infer Args) => unknown ? Args : never
  ): Promise<Functions[Name] extends (...args: never[]) => infer Result ? Awaited<Result> : never> {
    const id = ++this.#ids;
    const waiting = Promise.withResolvers<unknown>();
    this.#waiting.set(id, waiting);
    this.process.send({ id, name, args });
    return waiting.promise as never;
  }

  async stop(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const exited = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await exited;
  }
}

/** In the process itself: answers the calls of its parent, and ends with it. */
export function serve(functions: Record<string, (...args: never[]) => unknown>): void {
  process.once('disconnect', () => process.exit());
  process.on('message', async ({ id, name, args }: { id: number; name: string; args: never[] }) => {
    try {
      process.send?.({ id, result: (await functions[name]!(...args)) ?? null });
    } catch (error) {
      process.send?.({ id, error: String(error) });
    }
  });
}
