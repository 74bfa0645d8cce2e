import { type ChildProcess, spawn } from 'node:child_process';
import { type AddressInfo, connect, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

const KEPT_STDERR = 4000;
const living = new Set<ChildProcess>();

process.once('exit', () => {
  for (const child of living) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

/** A process that the bench started and controls until its exit; it does not outlive the bench. */
export class Child {
  readonly process: ChildProcess;
  readonly #exited: Promise<void>;
  #stderr = '';

  constructor(command: readonly string[], options: { readonly env?: NodeJS.ProcessEnv; readonly cwd?: string } = {}) {
    this.process = spawn(command[0]!, command.slice(1), { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    living.add(this.process);
    this.#exited = new Promise((resolve) => {
      this.process.once('exit', () => {
        living.delete(this.process);
        resolve();
      });
      this.process.once('error', (error) => {
        this.#stderr += error.message;
        resolve();
      });
    });
    this.process.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-KEPT_STDERR);
    });
  }

  get pid(): number {
    return this.process.pid ?? -1;
  }

  get stderr(): string {
    return this.#stderr;
  }

  async stop(): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.kill('SIGTERM');
    const slow = setTimeout(() => this.process.kill('SIGKILL'), 10_000);
    await this.#exited;
    clearTimeout(slow);
  }

  /** The first line that the process prints. */
  firstLine(): Promise<string> {
    return new Promise((resolve, reject) => {
      let text = '';
      this.process.stdout!.setEncoding('utf8').on('data', (chunk: string) => {
        if (text.includes('\n')) return;
        text += chunk;
        if (text.includes('\n')) resolve(text.slice(0, text.indexOf('\n')));
      });
      void this.#exited.then(() => reject(new Error(`${this.process.spawnfile} ended: ${this.#stderr}`)));
    });
  }

  /** Waits until the port accepts connections. */
  async listening(port: number, timeoutMs = 30_000): Promise<void> {
    this.process.stdout!.resume();
    const end = performance.now() + timeoutMs;
    while (!(await accepts(port))) {
      if (this.process.exitCode !== null || performance.now() > end)
        throw new Error(`nothing listens on ${port}: ${this.#stderr}`);
      await delay(50);
    }
  }
}

/** A port that was free a moment ago, for programs that cannot choose one themselves. */
export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}
