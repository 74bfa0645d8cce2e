/**
 * Loaded into a measured gateway by Node itself, so that the product needs no knob: on SIGUSR2 it collects garbage and
 * writes how much it holds, in KiB, to a file that its process id names. Plain JavaScript, so that loading it costs nothing.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';

if (isMainThread) {
  const file = join(tmpdir(), `trunkline-bench-held-${process.pid}`);
  process.on('SIGUSR2', () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc');
    collect();
    collect();
    const { heapUsed, external } = process.memoryUsage();
    writeFileSync(`${file}.part`, String(Math.round((heapUsed + external) / 1024)));
    renameSync(`${file}.part`, file);
  });
}
