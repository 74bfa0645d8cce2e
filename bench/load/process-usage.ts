import { readdirSync, readFileSync } from 'node:fs';

/** Kernel ticks are hundredths of a second on every Linux that Node runs on. */
const US_PER_TICK = 10_000;

/** User and system time of the processes so far. A process that has ended counts as zero. */
export function cpuUs(pids: readonly number[]): number {
  let ticks = 0;
  for (const pid of pids) {
    const fields = statFields(pid);
    if (fields !== null) ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks * US_PER_TICK;
}

/** Resident memory of the processes together. */
export function rssKiB(pids: readonly number[]): number {
  let sum = 0;
  for (const pid of pids) {
    const status = read(`/proc/${pid}/status`);
    sum += Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0);
  }
  return sum;
}

/** The process and its descendants, except the servers it runs: their command line contains `except`. */
export function family(pid: number, except: string | null): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const fields = statFields(Number(name));
    if (fields !== null) parents.set(Number(name), Number(fields[1]));
  }
  const found = [pid];
  for (const parent of found) {
    for (const [child, itsParent] of parents) {
      if (itsParent !== parent) continue;
      if (except === null || !read(`/proc/${child}/cmdline`).includes(except)) found.push(child);
    }
  }
  return found;
}

/** The fields after the command's name, which may itself contain blanks and brackets. */
function statFields(pid: number): string[] | null {
  const text = read(`/proc/${pid}/stat`);
  return text === '' ? null : text.slice(text.lastIndexOf(')') + 2).split(' ');
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
