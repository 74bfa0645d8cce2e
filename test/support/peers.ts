import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, rmdirSync } from 'node:fs';
import { join, resolve } from 'node:path';

const FOLDER = resolve(import.meta.dirname, '../peers');
const WAIT_MS = 150_000;

/** A program of `test/peers`, by its path in node_modules; installed first where it is not yet, null when it cannot be. */
export async function peerProgram(path: string): Promise<string | null> {
  const program = join(FOLDER, 'node_modules', path);
  if (existsSync(program)) return program;
  const lock = join(FOLDER, '.installing');
  try {
    mkdirSync(lock);
  } catch {
    const end = performance.now() + WAIT_MS;
    while (existsSync(lock) && performance.now() < end) await new Promise((done) => setTimeout(done, 200));
    return existsSync(program) ? program : null;
  }
  try {
    const child = spawn('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: FOLDER, stdio: 'ignore' });
    await new Promise((done) => {
      child.once('exit', done);
      child.once('error', done);
    });
  } finally {
    rmdirSync(lock);
  }
  return existsSync(program) ? program : null;
}
