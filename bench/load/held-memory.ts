import { existsSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const PATIENCE_MS = 30_000;

/**
 * Makes the processes collect their garbage, and returns the memory that they hold then: heap, and buffers outside it. They
 * must have loaded `targets/collector.mjs`. Without a collection, resident memory depends on the time of the last one.
 */
export async function heldKiB(pids: readonly number[]): Promise<number> {
  let sum = 0;
  for (const pid of pids) {
    const file = join(tmpdir(), `trunkline-bench-held-${pid}`);
    process.kill(pid, 'SIGUSR2');
    for (const end = performance.now() + PATIENCE_MS; !existsSync(file); await delay(20)) {
      if (performance.now() > end) throw new Error(`process ${pid} does not report its memory`);
    }
    sum += Number(readFileSync(file, 'utf8'));
    rmSync(file);
  }
  return sum;
}
