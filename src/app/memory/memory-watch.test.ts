import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryLevel } from '../../model/pooled-buffers.ts';
import { Logger } from '../../telemetry/logger.ts';
import { bodyBudgetBytes, groupShareReader, offeredBytes, oldLimitBytes } from './memory-limit.ts';
import { MemoryWatch } from './memory-watch.ts';

function watched(t: { after(task: () => void): void }) {
  const at = { now: 0, heap: 0, garbage: 0, group: 0, collected: 0, shrunk: 0, collectMs: 0 };
  const watch = new MemoryWatch({
    logger: Logger.silent(),
    shrink: () => at.shrunk++,
    heapShare: () => at.heap + at.garbage,
    groupShare: () => at.group,
    collect: () => {
      at.collected++;
      at.garbage = 0;
      at.now += at.collectMs;
    },
    now: () => at.now,
  });
  t.after(() => watch.close());
  const level = (change: Partial<typeof at>): string => {
    Object.assign(at, { now: at.now + 1_000 }, change);
    watch.sample();
    return watch.level;
  };
  return { at, watch, level };
}

test('fault:F40 levels begin at 80, 90 and 95 % of the fuller of heap and container; 90 % empties caches', (t) => {
  const { at, level } = watched(t);
  assert.equal(level({ heap: 0.79, group: 0.5 }), 'ample');
  assert.equal(level({ heap: 0.8 }), 'short');
  assert.equal(at.shrunk, 0);
  assert.equal(level({ heap: 0.9 }), 'scarce');
  assert.equal(level({ heap: 0.94 }), 'scarce');
  assert.equal(at.shrunk, 2);
  assert.equal(level({ heap: 0.96 }), 'spent');
  assert.equal(level({ heap: 0.1 }), 'ample');
  assert.equal(level({ group: 0.85 }), 'short');
  assert.equal(level({ group: 0.97 }), 'spent');
  assert.equal(level({ group: 0 }), 'ample');
});

test('fault:F40 garbage is collected before the limit applies, every 10 s at most, and less often where that is slow', (t) => {
  const { at, level } = watched(t);
  assert.equal(level({ heap: 0.5, garbage: 0.4 }), 'ample');
  assert.equal(at.collected, 1);
  // Too soon to collect again: the garbage counts as used memory.
  assert.equal(level({ garbage: 0.35 }), 'short');
  assert.equal(at.collected, 1);
  assert.equal(level({ now: at.now + 10_000, collectMs: 2_000 }), 'ample');
  assert.equal(at.collected, 2);
  assert.equal(level({ now: at.now + 20_000, heap: 0.85 }), 'short');
  assert.equal(at.collected, 2);
  assert.equal(level({ now: at.now + 100_000 }), 'short');
  assert.equal(at.collected, 3);
});

test('fault:F40 a shortage of memory is logged with its severity', () => {
  let log = '';
  const logger = new Logger({ level: 'info', write: (line) => (log += line) });
  const watch = new MemoryWatch({
    logger,
    shrink: () => {},
    heapShare: () => 0.91,
    groupShare: null,
    collect: () => {},
  });
  watch.sample();
  watch.close();
  assert.match(log, /"level":"warn","event":"memory_short","memory":"scarce","heap":"91 %","group":"0 %"/);
});

test('fault:F40 a request between two samples measures again', (t) => {
  const { at, watch, level } = watched(t);
  assert.equal(level({ heap: 0.5 }), 'ample');
  Object.assign(at, { heap: 0.81, now: at.now + 50 });
  assert.equal(watch.level, 'ample');
  assert.equal(watch.refresh(), 'short');
  assert.equal(watch.level, 'short');
});

test('fault:F40 the limit of a container is read in both versions of control groups, if it has one', () => {
  const reader = (files: Record<string, string>) =>
    groupShareReader((path) => {
      const text = files[path];
      if (text === undefined) throw new Error(`ENOENT ${path}`);
      return text;
    });
  const two = reader({
    '/proc/self/cgroup': '0::/\n',
    '/sys/fs/cgroup/memory.max': '1000\n',
    '/sys/fs/cgroup/memory.current': '900\n',
    '/sys/fs/cgroup/memory.stat': 'anon 1\ninactive_file 150\nactive_file 250\nshmem 50\n',
  });
  assert.equal(two?.(), 0.5, 'active pages of files can be reclaimed, too');
  const one = reader({
    '/proc/self/cgroup': '8:pids:/\n4:memory:/box\n0::/\n',
    '/sys/fs/cgroup/memory/box/memory.limit_in_bytes': '1000\n',
    '/sys/fs/cgroup/memory/box/memory.usage_in_bytes': '500\n',
    '/sys/fs/cgroup/memory/box/memory.stat': 'inactive_file 7\ntotal_inactive_file 100\ntotal_active_file 50\n',
  });
  assert.equal(one?.(), 0.35);
  const unlimited = { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/memory.max': 'max\n' };
  assert.equal(reader(unlimited), null);
  assert.equal(reader({}), null);
});

test('fault:F40 the limit of the old generation: from a flag, otherwise from what V8 derives from the machine’s memory', () => {
  const mib = 1024 * 1024;
  const limit = (flags: string, heap: number, machine: number): number =>
    oldLimitBytes(flags, heap * mib, machine * mib) / mib;
  assert.equal(limit('', 4096 + 192, 24_000), 4096);
  assert.equal(limit('', 512 + 24, 2048), 512);
  assert.equal(limit('--max-old-space-size=256', 448, 24_000), 256);
  assert.equal(limit('--max-old-space-size=1 --inspect --max-old-space-size 300', 492, 24_000), 300);
  assert.equal(limit('--max-semi-space-size=16', 4096 + 48, 24_000), 4096);
});

test('fault:F40 the usable heap leaves 8 MiB for running work, or half of a limit below 16 MiB', () => {
  const mib = 1024 * 1024;
  assert.equal(offeredBytes(4096 * mib), 4088 * mib);
  assert.equal(offeredBytes(64 * mib), 56 * mib);
  assert.equal(offeredBytes(10 * mib), 5 * mib);
  // Docs, decision 026: the 20 MiB that the gateway itself needs are too much of a heap of 32 MiB, not of one of 34.
  assert.equal(memoryLevel((20 * mib) / offeredBytes(32 * mib)), 'short');
  assert.equal(memoryLevel((20 * mib) / offeredBytes(34 * mib)), 'ample');
});

test('security:12 incoming bodies get an eighth of the usable heap, and always room for two of the longest', () => {
  const mib = 1024 * 1024;
  assert.equal(bodyBudgetBytes(16 * mib, 4096 * mib), 512 * mib);
  assert.equal(bodyBudgetBytes(16 * mib, 56 * mib), 32 * mib);
  assert.equal(bodyBudgetBytes(64 * mib, 56 * mib), 128 * mib);
  assert.equal(bodyBudgetBytes(1024, 56 * mib), 32 * mib, 'the control API accepts 16 MiB in any case');
});
