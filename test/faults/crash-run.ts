import { setTimeout as sleep } from 'node:timers/promises';
import { type FaultBench, until } from './fault-bench.ts';
import type { Attempt } from './ledger/history.ts';
import type { LedgerClient } from './ledger/ledger-client.ts';

export interface CrashRunOptions {
  readonly kills: number;
  readonly clients: number;
}

export interface CrashRun {
  /** From the kill to the answer of a call that it cut off, for each such call. */
  readonly reportedMs: readonly number[];
  /** From the kill to the first result of the new process, for each kill. */
  readonly backMs: readonly number[];
  /** Calls that ended in a way that a crash does not explain. */
  readonly unexpected: readonly string[];
}

/**
 * F03: one shared process is killed repeatedly, each time when it works, while `clients` call it without a pause: half of
 * their calls may be repeated, half may not. The attempts are in the bench's history and ledger.
 */
export async function crashRun(bench: FaultBench, { kills, clients }: CrashRunOptions): Promise<CrashRun> {
  await bench.start({
    shared: bench.stdio('shared', 'stateful', { isolation: 'shared', retry: 'hints', trusted: true }),
  });
  await bench.gateway.ready();
  const reportedMs: number[] = [];
  const backMs: number[] = [];
  let running = true;
  const killed: number[] = [];
  let results = 0;
  const crowd = await Promise.all(Array.from({ length: clients }, (_, i) => bench.opened(`c${i}`)));
  const loops = crowd.map(async (client, i) => {
    for (let n = 0; running; n++) {
      const attempt = await one(client, i, n);
      if (attempt.ending === 'RESULT') results++;
      if (attempt.ending !== 'UNKNOWN') continue;
      const kill = killed.findLast((at) => at <= attempt.endedAt!);
      if (kill !== undefined && kill >= attempt.startedAt) reportedMs.push(attempt.endedAt! - kill);
    }
  });
  try {
    for (let i = 0; i < kills; i++) {
      const enough = results + 3 * clients;
      await until('the server works', () => results >= enough, 60_000);
      const [pid] = await bench.pids('shared');
      const before = results;
      const at = performance.now();
      killed.push(at);
      process.kill(-pid!, 'SIGKILL');
      await sleep(30);
      const stale = results;
      await until('the server is back', () => results > Math.max(before, stale), 60_000);
      backMs.push(performance.now() - at);
    }
  } finally {
    running = false;
  }
  await Promise.all(loops);
  const unexpected = bench.history.attempts
    .filter(({ ending, tool }) => ending !== 'RESULT' && (ending !== 'UNKNOWN' || tool.startsWith('safe')))
    .map(({ ending, tool, reason }) => `${tool}: ${ending} ${reason}`);
  return { reportedMs, backMs, unexpected };
}

/** The slow calls are in flight when a kill comes. */
function one(client: LedgerClient, i: number, n: number): Promise<Attempt> {
  if (n % 3 === 0) return client.call(i % 2 === 0 ? 'shared__safe' : 'shared__unsafe');
  return client.call(i % 2 === 0 ? 'shared__safe_slow' : 'shared__slow', { ms: 20 });
}
