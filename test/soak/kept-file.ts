import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Kept } from './proof.ts';

/** The progress of an interrupted run, in a file of the temporary folder. */
export class KeptFile implements Kept {
  readonly #path: string;
  #values: Record<string, unknown> = {};

  constructor(name: string, resume: boolean) {
    this.#path = join(process.env['TRUNKLINE_PROVE_DIR'] ?? tmpdir(), `trunkline-prove-${name}.json`);
    if (resume && existsSync(this.#path)) {
      this.#values = JSON.parse(readFileSync(this.#path, 'utf8')) as Record<string, unknown>;
    }
  }

  get<T>(key: string): T | null {
    return (this.#values[key] as T | undefined) ?? null;
  }

  set(key: string, value: unknown): void {
    this.#values[key] = value;
    writeFileSync(this.#path, JSON.stringify(this.#values));
  }

  /** The run is over: nothing is left to resume. */
  clear(): void {
    rmSync(this.#path, { force: true });
  }
}
