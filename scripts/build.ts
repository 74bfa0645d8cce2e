/** Builds `dist/` for publishing: tsc output of src without tests. */
import { rmSync } from 'node:fs';
import { run } from './run.ts';

rmSync('dist', { recursive: true, force: true });
process.exitCode = await run('tsc', ['-p', 'tsconfig.build.json']);
