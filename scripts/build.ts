/** Builds `dist/` for publishing: tsc output of src without tests, its modules put together in a few files; and the console. */
import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { buildConsole } from './build-console.ts';
import { bundle } from './bundle.ts';
import { run } from './run.ts';

rmSync('dist', { recursive: true, force: true });
process.exitCode = await run('tsc', ['-p', 'tsconfig.build.json']);
if (process.exitCode === 0) {
  await bundle('dist');
  await buildConsole(resolve('dist/ui'));
}
