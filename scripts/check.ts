/** `npm run check`: types and declarations as the build writes them, lint and format, generated files; prints room sizes. */
import { join } from 'node:path';
import { roomSizes } from './room-sizes.ts';
import { run } from './run.ts';

const steps: readonly (readonly [string, ...string[]])[] = [
  ['tsc', '-p', 'tsconfig.json'],
  ['biome', 'check', '--error-on-warnings', '.'],
  ['node', 'scripts/generate.ts', '--check'],
];

let failed = 0;
for (const [command, ...args] of steps) failed += (await run(command, args)) === 0 ? 0 : 1;
process.exitCode = failed === 0 ? 0 : 1;
console.log(roomSizes(join(import.meta.dirname, '..')));
