import { readdirSync, readFileSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import type { ProcessUsage } from '../../model/server-state.ts';
import { statOf } from './process-group.ts';

/** `/proc` counts in ticks of 10 ms (USER_HZ). */
const TICK_MS = 10;
/** Callers within this time share one scan. */
const SCAN_MS = 200;
/** Processes that are read in one turn of the event loop. */
const A_TURN = 100;

interface GroupMember {
  readonly pid: string;
  readonly ticks: number;
}

/** Resource usage of process groups. */
export class ProcessUsages {
  #scan: Promise<ReadonlyMap<number, readonly GroupMember[]>> | null = null;

  /** Usage by group, without groups that have ended; empty without `/proc`. */
  async of(groups: ReadonlySet<number>): Promise<ReadonlyMap<number, ProcessUsage>> {
    const found = new Map<number, ProcessUsage>();
    if (groups.size === 0) return found;
    if (this.#scan === null) {
      this.#scan = membersByGroup();
      setTimeout(() => (this.#scan = null), SCAN_MS).unref();
    }
    const byGroup = await this.#scan;
    for (const group of groups) {
      const members = byGroup.get(group);
      if (members === undefined) continue;
      found.set(group, {
        processes: members.length,
        memoryBytes: members.reduce((sum, { pid }) => sum + residentBytes(pid), 0),
        cpuMs: TICK_MS * members.reduce((sum, { ticks }) => sum + ticks, 0),
      });
    }
    return found;
  }
}

async function membersByGroup(): Promise<ReadonlyMap<number, readonly GroupMember[]>> {
  const byGroup = new Map<number, GroupMember[]>();
  for (const [i, pid] of processes().entries()) {
    if (i % A_TURN === A_TURN - 1) await turn();
    const stat = statOf(Number(pid));
    if (stat === null || stat.state === 'Z') continue;
    const members = byGroup.get(stat.group);
    const member = { pid, ticks: stat.ticks };
    if (members === undefined) byGroup.set(stat.group, [member]);
    else members.push(member);
  }
  return byGroup;
}

function processes(): readonly string[] {
  try {
    return readdirSync('/proc').filter((entry) => entry.charCodeAt(0) <= 0x39);
  } catch {
    return [];
  }
}

/** 0 if the process has ended meanwhile. */
function residentBytes(pid: string): number {
  try {
    const [, kilobytes = 0] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
    return 1024 * Number(kilobytes);
  } catch {
    return 0;
  }
}
