import { closeSync, openSync, readFileSync } from 'node:fs';
import { devNull } from 'node:os';

/** Part of the process's file descriptors for clients' connections; the rest is for servers and child processes. */
const SHARE = 0.6;

/** Reserve for the control API and for files, so that the operator can see and end what took the others. */
const RESERVE_SHARE = 1 / 8;
const MAX_RESERVE = 64;

/** The soft limit of open files of this process; null if the system does not report it (only Linux does, in /proc). */
export function descriptorLimit(read: () => string = () => readFileSync('/proc/self/limits', 'latin1')): number | null {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(read());
    return limit === null ? null : Number(limit[1]);
  } catch {
    return null;
  }
}

/** How many connections to accept, so that requests in progress never lack descriptors (F39). */
export function connectionCap(wanted: number, limit: number | null): number {
  return limit === null ? wanted : Math.min(wanted, Math.floor(limit * SHARE));
}

/** Constant while the process runs, unless another program changes the limit. */
const LIMIT = descriptorLimit();

/**
 * Whether this many more descriptors would reach into the reserve (F39). The system allocates the lowest free number, so
 * the number of a new descriptor shows how many are in use.
 */
export function fewDescriptorsLeft(needed = 1, limit: number | null = LIMIT): boolean {
  if (limit === null) return false;
  try {
    const next = openSync(devNull, 'r');
    closeSync(next);
    return next + needed > limit - Math.min(MAX_RESERVE, Math.floor(limit * RESERVE_SHARE));
  } catch {
    return true;
  }
}
