import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';

const MIB = 1024 * 1024;
/** Where what is young lives; it has a limit of its own. */
const YOUNG_SPACES = new Set(['new_space', 'new_large_object_space']);

/**
 * Kept from those who ask: to finish what is in hand, or to let go of it, takes memory, too. A thousand calls that are
 * cancelled at once take 3 MiB.
 */
const RESERVE_BYTES = 8 * MIB;

/** The part of what the heap's old generation may offer that is taken, garbage included: 0 to 1, and more in the reserve. */
export function heapShare(): number {
  let used = 0;
  for (const { space_name, space_used_size } of getHeapSpaceStatistics()) {
    if (!YOUNG_SPACES.has(space_name)) used += space_used_size;
  }
  return used / OFFERED_BYTES;
}

/**
 * What V8 lets the old generation have, beyond which it ends the process. It tells the sum of both generations only; the
 * young one follows from the memory of the machine, unless a flag says what either is.
 */
export function oldLimitBytes(flags: string, heapLimitBytes: number, machineBytes: number): number {
  const flagValue = (name: string): number | null => {
    const found = [...flags.matchAll(new RegExp(`--${name}[= ](\\d+)`, 'g'))].at(-1);
    return found === undefined ? null : Number(found[1]) * MIB;
  };
  const semiSpace = flagValue('max-semi-space-size') ?? Math.min(machineBytes / 4, 4096 * MIB) / 64;
  return flagValue('max-old-space-size') ?? heapLimitBytes - 3 * semiSpace;
}

/** Of a limit that is no more than the gateway itself needs, something is left to measure by. */
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

/** For request bodies in receipt: a part of what the heap may offer, and always enough for two of the longest. */
export function bodyBudgetBytes(maxBodyBytes: number, offered = OFFERED_BYTES): number {
  return Math.max(offered * BODIES_PART, 2 * maxBodyBytes, MIN_BODIES_BYTES);
}

type Read = (path: string) => string;

const readText: Read = (path) => readFileSync(path, 'latin1');

/** Where the two versions of control groups tell what a group may take, takes, and could give back at once. */
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
/** More than any machine has means no limit. */
const NO_LIMIT = 2 ** 50;

/**
 * The part of its control group's memory that is taken, by this process and those beside it in the group, without the
 * pages of files, which the kernel takes back before it ends anybody: in a group that reads many files they fill what
 * is free, and would be held against its callers for ever. Null where there is no limit. Linux only.
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
        // Not this version, or not to be seen from here.
      }
    }
  }
  return null;
}

/** The group itself, and the root of what a container sees of it. */
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
