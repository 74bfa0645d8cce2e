import { randomUUID } from 'node:crypto';
import type { ProcessGuard } from '../../src/model/process-guard.ts';
import type { CloseReason } from '../../src/upstream/transport/transport.ts';
import { MARK, survivors } from './processes.ts';
import { shellSpec, stdioBench } from './stdio-bench.ts';

export interface CyclesResult {
  /** Processes started in all, grandchildren included. */
  readonly started: number;
  /** Processes that still ran at the end. */
  readonly leaked: readonly number[];
  /** Longest time from the end of a cycle's server to the end of its last process. */
  readonly slowestMs: number;
}

/** How the server reacts to its end: it exits, ignores it, or becomes another program. Three processes each. */
const CHARACTERS = [
  `sleep 600 & sleep 600 & echo '{"up":1}'; read line`,
  `trap '' TERM; sleep 600 & sleep 600 & echo '{"up":1}'; while :; do read line || sleep 0.05; done`,
  `sleep 600 & sleep 600 & echo '{"up":1}'; while :; do read line || exec sleep 600; done`,
];
const ENDS: readonly (CloseReason | 'crash' | 'terminate')[] = [
  'remove',
  'crash',
  'shutdown',
  'terminate',
  'interrupt',
];

export interface CyclesOptions {
  readonly cycles: number;
  /** Cycles under way at once. */
  readonly lanes?: number;
  readonly guard?: ProcessGuard;
}

/** Starts and ends a server so many times, in every way, and counts what is left (G7). */
export async function processCycles(options: CyclesOptions): Promise<CyclesResult> {
  const mark = randomUUID();
  let next = 0;
  let slowestMs = 0;
  const lane = async (): Promise<void> => {
    for (let i = next++; i < options.cycles; i = next++) {
      slowestMs = Math.max(slowestMs, await cycle(i, mark, options.guard));
    }
  };
  await Promise.all(Array.from({ length: options.lanes ?? 1 }, lane));
  return { started: options.cycles * 3, leaked: await survivors(mark, 5000), slowestMs };
}

async function cycle(i: number, mark: string, guard: ProcessGuard | undefined): Promise<number> {
  const character = CHARACTERS[i % CHARACTERS.length]!;
  const end = ENDS[i % ENDS.length]!;
  const { transport, receiver } = stdioBench(
    shellSpec(character, { env: { [MARK]: mark } }),
    guard === undefined ? {} : { guard },
  );
  await transport.open(receiver);
  await receiver.until(() => receiver.messages.length > 0);
  const before = performance.now();
  if (end === 'crash' || end === 'terminate') {
    process.kill(transport.pid!, end === 'crash' ? 'SIGKILL' : 'SIGTERM');
    await transport.close('interrupt');
  } else {
    await transport.close(end);
  }
  return performance.now() - before;
}
