import { readdirSync, readFileSync } from 'node:fs';

/** Sends a signal to every process of a group; false when there is no such group (or none that is ours). */
export function signalGroup(group: number, signal: NodeJS.Signals): boolean {
  return kill(group, signal);
}

/**
 * Whether a group still has a living process. Zombies do not count: under an init that reaps nothing, as in many
 * containers, a dead grandchild would keep its group for ever.
 */
export function groupAlive(group: number): boolean {
  return kill(group, 0) && !(process.platform === 'linux' && onlyZombies(group));
}

function kill(group: number, signal: NodeJS.Signals | 0): boolean {
  // -1 would be every process of this user, 0 our own group.
  if (!Number.isSafeInteger(group) || group <= 1) throw new RangeError(`not a process group: ${group}`);
  try {
    process.kill(-group, signal);
    return true;
  } catch {
    return false;
  }
}

function onlyZombies(group: number): boolean {
  for (const entry of readdirSync('/proc')) {
    if (entry.charCodeAt(0) > 0x39) continue;
    const stat = statOf(Number(entry));
    if (stat !== null && stat.group === group && stat.state !== 'Z' && stat.state !== 'X') return false;
  }
  return true;
}

export interface ProcessStat {
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  /** Clock ticks after boot; with the pid it names a process uniquely until the next boot. */
  readonly startTime: string;
}

/** Linux only; null where the process or `/proc` is not there. */
export function statOf(pid: number): ProcessStat | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name in parentheses may hold anything, so fields are counted from the last one: state is the third field.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return { state: fields[0]!, parent: Number(fields[1]), group: Number(fields[2]), startTime: fields[19]! };
  } catch {
    return null;
  }
}
