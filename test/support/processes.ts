import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Put into a child's environment under this name, a mark is inherited by all its descendants. */
export const MARK = 'TRUNKLINE_TEST_MARK';

/** Living processes (zombies do not count) whose environment carries the mark. Linux only. */
export function markedProcesses(mark: string): number[] {
  const wanted = `${MARK}=${mark}\0`;
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(wanted) && !isZombie(pid);
      } catch {
        return false;
      }
    });
}

/** Waits until so many marked processes are there, and says how many were at the end. */
export async function processCount(mark: string, expected: number, waitMs: number): Promise<number> {
  const until = performance.now() + waitMs;
  for (;;) {
    const count = markedProcesses(mark).length;
    if (count === expected || performance.now() > until) return count;
    await sleep(20);
  }
}

/** Waits until no marked process is left, or gives back those that are still there. */
export async function survivors(mark: string, waitMs: number): Promise<number[]> {
  const until = performance.now() + waitMs;
  for (;;) {
    const left = markedProcesses(mark);
    if (left.length === 0 || performance.now() > until) return left;
    await sleep(20);
  }
}

function isZombie(pid: number): boolean {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z');
}
