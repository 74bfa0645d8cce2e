import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';

const MIB = 1024 * 1024;
/** The young generation, which has its own limit. */
const YOUNG_SPACES = new Set(['new_space', 'new_large_object_space']);

/** Reserved, because finishing and cancelling calls takes memory too: a thousand calls cancelled at once take 3 MiB. */
const RESERVE_BYTES = 8 * MIB;

/** Returns the used share of the old generation without its reserve, garbage included: 0 to 1, more in the reserve. */
export function heapShare(): number {
  let used = 0;
  for (const { space_name, space_used_size } of getHeapSpaceStatistics()) {
    if (!YOUNG_SPACES.has(space_name)) used += space_used_size;
  }
  return used / OFFERED_BYTES;
}

/**
 * Returns the limit of the old generation, beyond which V8 ends the process. V8 reports only the sum of both generations; the
 * size of the young one follows from the memory of the machine, unless a flag sets either.
 */
export function oldLimitBytes(flags: string, heapLimitBytes: number, machineBytes: number): number {
  const flagValue = (name: string): number | null => {
    const found = [...flags.matchAll(new RegExp(`--${name}[= ](\\d+)`, 'g'))].at(-1);
    return found === undefined ? null : Number(found[1]) * MIB;
  };
  const semiSpace = flagValue('max-semi-space-size') ?? Math.min(machineBytes / 4, 4096 * MIB) / 64;
  return flagValue('max-old-space-size') ?? heapLimitBytes - 3 * semiSpace;
}

/** The limit without the reserve, but at least half of the limit. */
export function offeredBytes(oldLimit: number): number {
  return Math.max(oldLimit - RESERVE_BYTES, oldLimit / 2);
}

const OFFERED_BYTES = offeredBytes(
  oldLimitBytes(
    `${process.env['NODE_OPTIONS'] ?? ''} ${process.execArgv.join(' ')}`.replaceAll('_', '-'),
    getHeapStatistics().heap_size_limit,
    Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY),
  ),
);

const BODIES_PART = 1 / 8;
const MIN_BODIES_BYTES = 32 * MIB;

/** Returns the budget for request bodies in receipt: a share of the old generation, but enough for two maximum bodies. */
export function bodyBudgetBytes(maxBodyBytes: number, offered = OFFERED_BYTES): number {
  return Math.max(offered * BODIES_PART, 2 * maxBodyBytes, MIN_BODIES_BYTES);
}

type Read = (path: string) => string;

const readText: Read = (path) => readFileSync(path, 'latin1');

/** Where the two versions of control groups report the limit, the usage and the reclaimable memory of a group. */
const VERSIONS = [
  {
    controller: '',
    mount: '/sys/fs/cgroup',
    limit: 'memory.max',
    used: 'memory.current',
    reclaimable: /^(?:in)?active_file (\d+)$/gm,
  },
  {
    controller: 'memory',
    mount: '/sys/fs/cgroup/memory',
    limit: 'memory.limit_in_bytes',
    used: 'memory.usage_in_bytes',
    reclaimable: /^total_(?:in)?active_file (\d+)$/gm,
  },
] as const;
/** A value above the memory of any machine means no limit. */
const NO_LIMIT = 2 ** 50;

/**
 * Returns a reader of the used share of the control group's memory, by all its processes. It leaves out pages of files: the
 * kernel reclaims them before it kills a process, and they fill the free memory of a group that reads many files. Null
 * without a limit. Linux only.
 */
export function groupShareReader(read: Read = readText): (() => number) | null {
  for (const { controller, mount, limit, used, reclaimable } of VERSIONS) {
    for (const folder of foldersOf(controller, mount, read)) {
      try {
        const most = Number(read(`${folder}/${limit}`));
        if (!(most > 0 && most < NO_LIMIT)) continue;
        const share = (): number => {
          let free = 0;
          for (const [, bytes] of read(`${folder}/memory.stat`).matchAll(reclaimable)) free += Number(bytes);
          return (Number(read(`${folder}/${used}`)) - free) / most;
        };
        share();
        return share;
      } catch {
        // The group has another version, or is not visible here.
      }
    }
  }
  return null;
}

/** Returns the folder of the group, and the root that a container sees. */
function foldersOf(controller: string, mount: string, read: Read): string[] {
  try {
    const line = read('/proc/self/cgroup')
      .split('\n')
      .find((text) => text.split(':')[1]?.split(',').includes(controller) === true);
    const path = line?.split(':').slice(2).join(':').replace(/\/$/, '') ?? '';
    return [...new Set([mount + path, mount])];
  } catch {
    return [];
  }
}
