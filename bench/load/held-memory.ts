import { existsSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const PATIENCE_MS = 30_000;

/**
 * Has the processes collect their garbage, and says how much they hold then: heap, and buffers beside it. Only of processes
 * with `targets/collector.mjs` in them. What is resident without that says as much of when the collector came by last.
 */
export async function heldKiB(pids: readonly number[]): Promise<number> {
  let sum = 0;
  for (const pid of pids) {
    const file = join(tmpdir(), `trunkline-bench-held-${pid}`);
    process.kill(pid, 'SIGUSR2');
    for (const end = performance.now() + PATIENCE_MS; !existsSync(file); await delay(20)) {
      if (performance.now() > end) throw new Error(`process ${pid} does not say what it holds`);
    }
    sum += Number(readFileSync(file, 'utf8'));
    rmSync(file);
  }
  return sum;
}
