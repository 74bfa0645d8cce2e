import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { Gateway, GatewayOptions } from '../../src/index.ts';

const PROGRAM = resolve(import.meta.dirname, '../fixtures/cluster/program.ts');

type Methods = { [K in keyof Gateway]: Gateway[K] extends (...args: infer A) => infer R ? (...args: A) => R : never };

/** A program with a gateway in it, in a process of its own, whose methods are called from here. */
export class ProgramNode implements AsyncDisposable {
  readonly process: ChildProcess;
  stderr = '';
  readonly exited: Promise<number | null>;
  readonly #waiting = new Map<number, { done: (result: unknown) => void; failed: (error: Error) => void }>();
  #ids = 0;

  private constructor(options: Omit<GatewayOptions, 'logger'>) {
    this.process = spawn(process.execPath, [PROGRAM, JSON.stringify(options)], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.process.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    this.exited = once(this.process, 'exit').then(([code]) => {
      for (const { failed } of this.#waiting.values()) failed(new Error(`the program has ended: ${this.stderr}`));
      return code as number | null;
    });
    createInterface(this.process.stdout!).on('line', (line) => {
      const { id, result, error } = JSON.parse(line) as { id: number; result?: unknown; error?: string };
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) waiting?.done(result);
      else waiting?.failed(new Error(error));
    });
  }

  /** Rejects with the message that `createGateway` rejected with. */
  static async start(options: Omit<GatewayOptions, 'logger'>): Promise<ProgramNode> {
    const node = new ProgramNode(options);
    await node.#answer(0);
    return node;
  }

  /** Calls a method of its gateway. */
  call<M extends keyof Methods>(method: M, ...args: Parameters<Methods[M]>): Promise<Awaited<ReturnType<Methods[M]>>> {
    const id = ++this.#ids;
    this.process.stdin!.write(`${JSON.stringify({ id, method, args })}\n`);
    return this.#answer(id) as Promise<Awaited<ReturnType<Methods[M]>>>;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.stdin!.end();
    const late = setTimeout(() => this.process.kill('SIGKILL'), 15_000);
    await this.exited;
    clearTimeout(late);
  }

  #answer(id: number): Promise<unknown> {
    return new Promise((done, failed) => this.#waiting.set(id, { done, failed }));
  }
}
