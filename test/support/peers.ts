import { createHash } from 'node:crypto';
import { cpSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { madeOnce } from './made-once.ts';
import { runProgram } from './run-program.ts';

const FOLDER = resolve(import.meta.dirname, '../peers');
const FILES = ['package.json', 'package-lock.json'];
const AT_MOST_MS = 300_000;

/** A program of `test/peers`, by its path in node_modules; installed first where it is not yet, null when it cannot be. */
export async function peerProgram(path: string): Promise<string | null> {
  const digest = createHash('sha256')
    .update(readFileSync(join(FOLDER, 'package-lock.json')))
    .digest('hex');
  const made = madeOnce(`peers-${digest.slice(0, 16)}`, async (scratch) => {
    for (const file of FILES) cpSync(join(FOLDER, file), join(scratch, file));
    const install = ['npm', 'ci', '--no-audit', '--no-fund', '--ignore-scripts'] as const;
    const { code, err } = await runProgram(install, { cwd: scratch, atMostMs: AT_MOST_MS });
    if (code !== 0) throw new Error(`npm ci ended with ${code}: ${err}`);
  });
  return made.then(
    (folder) => join(folder, 'node_modules', path),
    () => null,
  );
}
