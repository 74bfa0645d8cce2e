import { spawn } from 'node:child_process';
import { resolve } from 'node:path';

const BIN = resolve(import.meta.dirname, '../node_modules/.bin');

/** TypeScript 6, which bundles the declarations, also has a `tsc`, four times as slow; npm links either of them. */
const PROGRAMS: Readonly<Record<string, string>> = { tsc: resolve(BIN, '../typescript/bin/tsc') };

/** Runs a program of node_modules/.bin (or PATH) on our terminal; resolves with its exit code. */
export function run(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<number> {
  const child = spawn(PROGRAMS[command] ?? command, args, {
    stdio: 'inherit',
    env: { ...process.env, PATH: `${BIN}:${process.env['PATH'] ?? ''}`, ...env },
  });
  return new Promise((done, fail) => {
    child.once('error', fail);
    child.once('exit', (code, signal) => done(signal === null ? (code ?? 1) : 1));
  });
}
