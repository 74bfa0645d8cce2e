import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Finding, Job } from './load/job.ts';

const SCRIPT = join(import.meta.dirname, 'load', 'main.ts');
const PATIENCE_MS = 300_000;
/** Node 24 can wait for its own threads for ever when it exits (nodejs/node#54918): 2 of 100 generators with large results did. */
const END_PATIENCE_MS = 5000;

/** One measurement, by a load generator of its own. */
export async function generate(job: Job): Promise<Finding> {
  const generator = new Generator(job);
  try {
    return await generator.warmedUp();
  } finally {
    await generator.end();
  }
}

/** A load generator that keeps its connections and sessions, and measures at each of its turns. */
export class Generator {
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  #stderr = '';

  constructor(job: Job) {
    this.#process = spawn(process.execPath, [SCRIPT, JSON.stringify(job)], { stdio: 'pipe' });
    this.#process.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    this.#process.stdin!.on('error', () => undefined);
    this.#lines = createInterface({ input: this.#process.stdout! })[Symbol.asyncIterator]();
  }

  /** The finding right after the warm-up; the only one of a generator that measures once. */
  warmedUp(): Promise<Finding> {
    return this.#timely(this.#finding());
  }

  /** The finding of one turn. */
  turn(): Promise<Finding> {
    this.#process.stdin!.write('\n');
    return this.#timely(this.#finding());
  }

  /** Ends the generator and its sessions. */
  async end(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, 'exit');
    this.#process.stdin!.end();
    await this.#timely(ended, END_PATIENCE_MS);
  }

  async #finding(): Promise<Finding> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error(`the load generator ended: ${this.#stderr}`);
    return JSON.parse(value) as Finding;
  }

  /** Kills a generator whose target no longer answers: it would wait for ever. */
  async #timely<T>(work: Promise<T>, patienceMs = PATIENCE_MS): Promise<T> {
    const late = setTimeout(() => this.#process.kill('SIGKILL'), patienceMs);
    return work.finally(() => clearTimeout(late));
  }
}
