import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** The environment variable of the mark, which all descendants of a marked child inherit. */
export const MARK = 'TRUNKLINE_TEST_MARK';

/** Living processes (zombies do not count) whose environment carries the mark. Linux only. */
export function markedProcesses(mark: string): number[] {
  const wanted = `${MARK}=${mark}\0`;
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(wanted) && lives(pid);
      } catch {
        return false;
      }
    });
}

/** Waits until this many marked processes are running, and returns how many there were at the end. */
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

/** Distinguishes a process from a later one with the same number: its number and its start time. */
export type ProcessId = readonly [pid: number, startedAt: string];

/** Null where it is gone or cannot be read. Linux only. */
export function idOf(pid: number): ProcessId | null {
  const fields = statOf(pid);
  return fields === null ? null : [pid, fields[19]!];
}

/** All descendants of this process. Linux only; elsewhere none. */
export function childrenOf(ancestor: number): ProcessId[] {
  const byParent = new Map<number, ProcessId[]>();
  for (const entry of existsSync('/proc') ? readdirSync('/proc') : []) {
    const fields = /^\d+$/.test(entry) ? statOf(Number(entry)) : null;
    if (fields === null) continue;
    const parent = Number(fields[1]);
    byParent.set(parent, [...(byParent.get(parent) ?? []), [Number(entry), fields[19]!]]);
  }
  const found: ProcessId[] = [];
  for (const next = [ancestor]; next.length > 0; ) {
    const children = byParent.get(next.pop()!) ?? [];
    found.push(...children);
    next.push(...children.map(([pid]) => pid));
  }
  return found;
}

/** Those that are still there. */
export function livingAmong(processes: readonly ProcessId[]): number[] {
  return processes
    .filter(([pid, startedAt]) => {
      const fields = statOf(pid);
      return fields !== null && fields[0] !== 'Z' && fields[19] === startedAt;
    })
    .map(([pid]) => pid);
}

function lives(pid: number): boolean {
  const state = statOf(pid)?.[0];
  return state !== undefined && state !== 'Z';
}

/** Kills those that have not ended meanwhile. */
export function killAll(pids: Iterable<number>): void {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended meanwhile.
    }
  }
}

/** Its command line, for people to read. */
export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
  } catch {
    return '(gone)';
  }
}

/** The fields of its `stat` file from its state on; null where it is gone. */
function statOf(pid: number): string[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null;
  }
}
