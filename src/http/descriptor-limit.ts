import { readFileSync } from 'node:fs';

/** Of the process's file descriptors, clients' connections may take this part; the rest is for servers and children. */
const SHARE = 0.6;

/** The soft limit of open files of this process; null where the system does not say (only Linux does, in /proc). */
export function descriptorLimit(read: () => string = () => readFileSync('/proc/self/limits', 'latin1')): number | null {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(read());
    return limit === null ? null : Number(limit[1]);
  } catch {
    return null;
  }
}

/** How many connections to take, so that descriptors never run out for what is already being served (F39). */
export function connectionCap(wanted: number, limit: number | null): number {
  return limit === null ? wanted : Math.min(wanted, Math.floor(limit * SHARE));
}
