import { readdir, readFile } from 'node:fs/promises';
import type { ProcessUsage } from '../../model/server-state.ts';
import { parsedStat } from './process-group.ts';

/** `/proc` counts in ticks of 10 ms (USER_HZ). */
const TICK_MS = 10;

/** What the processes of each group use, by group. Of the groups that are gone nothing; empty where there is no `/proc`. */
export async function usageOf(groups: ReadonlySet<number>): Promise<ReadonlyMap<number, ProcessUsage>> {
  const found = new Map<number, ProcessUsage>();
  if (groups.size === 0) return found;
  for (const entry of await readdir('/proc').catch(() => [])) {
    if (entry.charCodeAt(0) > 0x39) continue;
    const stat = parsedStat(await readOf(entry, 'stat'));
    if (stat === null || stat.state === 'Z' || !groups.has(stat.group)) continue;
    const [, kilobytes = 0] = /^VmRSS:\s+(\d+) kB$/m.exec(await readOf(entry, 'status')) ?? [];
    const { processes, memoryBytes, cpuMs } = found.get(stat.group) ?? { processes: 0, memoryBytes: 0, cpuMs: 0 };
    found.set(stat.group, {
      processes: processes + 1,
      memoryBytes: memoryBytes + 1024 * Number(kilobytes),
      cpuMs: cpuMs + TICK_MS * stat.ticks,
    });
  }
  return found;
}

/** Empty for a process that has ended meanwhile. */
function readOf(pid: string, file: string): Promise<string> {
  return readFile(`/proc/${pid}/${file}`, 'latin1').catch(() => '');
}
