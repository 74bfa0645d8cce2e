/**
 * `npm test`: the whole test suite. Arguments narrow it to files whose path contains one of them:
 * `npm test -- protocol gateway`. Tests start and stop what they need themselves.
 */
import { globSync } from 'node:fs';
import { resolve } from 'node:path';
import { run } from './run.ts';

const root = resolve(import.meta.dirname, '..');
const words = process.argv.slice(2);
const files = ['src/**/*.test.ts', 'test/**/*.test.ts', 'examples/**/*.test.ts', 'bench/**/*.test.ts']
  .flatMap((pattern) => globSync(pattern, { cwd: root, exclude: (path) => path.endsWith('node_modules') }))
  .filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
  .sort();

if (files.length === 0) {
  console.error(`no test file matches ${words.join(', ')}`);
  process.exitCode = 1;
} else {
  process.chdir(root);
  // Two files at a time: the machines this runs on have two cores, and many tests start processes of their own.
  process.exitCode = await run('node', ['--test', '--test-concurrency=2', '--test-timeout=180000', ...files]);
}
