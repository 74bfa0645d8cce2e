import { closeSync, openSync, readFileSync } from 'node:fs';
import { devNull } from 'node:os';

/** Of the process's file descriptors, clients' connections may take this part; the rest is for servers and children. */
const SHARE = 0.6;

/** The last of them are for the control API and for files, so that the operator can see and end what took the others. */
const RESERVE_SHARE = 1 / 8;
const MAX_RESERVE = 64;

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

/** It does not change while the process runs, unless another program changes it. */
const LIMIT = descriptorLimit();

/**
 * Whether so many more descriptors would reach into the reserve (F39). The system gives out the lowest free number, so
 * that of a fresh one says how many are taken.
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
