/** Builds `dist/` for publishing: tsc output of src without tests, its modules put together in a few files. */
import { rmSync } from 'node:fs';
import { bundle } from './bundle.ts';
import { run } from './run.ts';

rmSync('dist', { recursive: true, force: true });
process.exitCode = await run('tsc', ['-p', 'tsconfig.build.json']);
if (process.exitCode === 0) await bundle('dist');
