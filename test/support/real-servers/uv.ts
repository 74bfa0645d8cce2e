import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { runProgram } from '../run-program.ts';

const VERSION = '0.13.9';
const FOLDER = resolve(import.meta.dirname, '../../peers/uv');

/** The folder of `uv` and `uvx`, installed there from PyPI first where they are not; null when that cannot be done. */
export async function uvFolder(): Promise<string | null> {
  const bin = join(FOLDER, 'bin');
  if (existsSync(join(bin, 'uvx'))) return bin;
  const steps: readonly [string, ...string[]][] = [
    ['python3', '-m', 'venv', FOLDER],
    [join(bin, 'pip'), 'install', '--quiet', `uv==${VERSION}`],
  ];
  for (const step of steps) {
    const { code } = await runProgram(step).catch(() => ({ code: null }));
    if (code !== 0) return null;
  }
  return existsSync(join(bin, 'uvx')) ? bin : null;
}
