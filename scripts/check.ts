/** `npm run check`: types and declarations as the build writes them, lint and format, generated files; prints the sizes of rooms and guides. */
import { join } from 'node:path';
import { roomSizes } from './room-sizes.ts';
import { run } from './run.ts';
import { userWords } from './user-words.ts';

const steps: readonly (readonly [string, ...string[]])[] = [
  ['tsc', '-p', 'tsconfig.json'],
  ['tsc', '-p', 'ui'],
  ['tsc', '-p', 'test/console'],
  ['biome', 'check', '--error-on-warnings', '.'],
  ['node', 'scripts/generate.ts', '--check'],
];

let failed = 0;
for (const [command, ...args] of steps) failed += (await run(command, args)) === 0 ? 0 : 1;
process.exitCode = failed === 0 ? 0 : 1;
const root = join(import.meta.dirname, '..');
console.log(roomSizes(root));
console.log(
  `guides      ${`${[...userWords(root).values()].reduce((sum, words) => sum + words, 0)}`.padStart(7)} words`,
);
