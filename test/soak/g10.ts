import { setTimeout as sleep } from 'node:timers/promises';
import { HttpSocket } from '../../bench/load/http-socket.ts';
import { until } from '../faults/fault-bench.ts';
import { markedProcesses } from '../support/processes.ts';
import { inLanes, LeanClient } from './lean-client.ts';
import { ProbedGateway } from './probed-gateway.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

const MIB = 1024 * 1024;
/** Longer than a sweep takes to remove an expired session. */
const SWEEP_MS = 60_000;

interface Size {
  readonly sessions: number;
  readonly overMs: number;
  /** Sessions are given up at once and expire after this: at the full rate some 15 000 are there at a time. */
  readonly idleMs: number;
}

const FULL: Size = { sessions: 100_000, overMs: 10 * 60_000, idleMs: 60_000 };

/** The scenario at any size; `npm test` runs it small. */
export async function abandonSessions({ say }: Pick<Run, 'say'>, size: Size): Promise<Outcome> {
  const { sessions, overMs, idleMs } = size;
  const gateway = new ProbedGateway();
  try {
    await gateway.start(
      { one: gateway.bench.stdio('one') },
      { sessions: { max: 20_000, maxPerPrincipal: 20_000, idleMs }, log: { level: 'warn' } },
    );
    // Objects that are made once and kept are no leak.
    await abandon(gateway, 500, 5_000);
    await expired(gateway, idleMs);
    const before = await gateway.probe();
    const processesBefore = markedProcesses(gateway.bench.mark).length;
    const refused = await abandon(gateway, sessions, overMs, (done) => say(`${done} sessions`));
    const peak = await gateway.probe();
    await expired(gateway, idleMs);
    const after = await gateway.probe();
    return {
      figures: [
        figure('sessions opened and abandoned', sessions, ''),
        figure('refused with 429', refused, ''),
        figure('heap at the end of the rush, after GC, over base', (peak.heapBytes - before.heapBytes) / MIB, 'MiB'),
        figure('heap after expiry and GC over base', (after.heapBytes - before.heapBytes) / MIB, 'MiB', 32),
        figure('resident memory over base', (after.rssBytes - before.rssBytes) / MIB, 'MiB'),
        figure('timers more than before', after.timers - before.timers, '', 0),
        figure('file descriptors more than before', after.descriptors - before.descriptors, '', 5),
        figure('processes more than before', markedProcesses(gateway.bench.mark).length - processesBefore, '', 0),
      ],
      broken: refused > 0 ? [`${refused} sessions were refused below the cap`] : [],
    };
  } finally {
    await gateway.bench.dispose();
  }
}

async function expired(gateway: ProbedGateway, idleMs: number): Promise<void> {
  const open = async (): Promise<number> =>
    (await gateway.bench.gateway.control<{ sessions: unknown[] }>('/api/v1/sessions')).sessions.length;
  await until('the sessions have expired', async () => (await open()) === 0, idleMs + SWEEP_MS);
}

async function abandon(
  gateway: ProbedGateway,
  count: number,
  overMs: number,
  say?: (done: number) => void,
): Promise<number> {
  const sockets = Array.from({ length: 8 }, () => new HttpSocket(gateway.url));
  const begun = performance.now();
  let refused = 0;
  await inLanes(count, sockets.length, async (i, lane) => {
    const due = begun + (i / count) * overMs;
    const early = due - performance.now();
    if (early > 0) await sleep(early);
    if ((await new LeanClient(gateway.url).open(sockets[lane]!)) !== 200) refused++;
    if (i > 0 && i % 10_000 === 0) say?.(i);
  });
  for (const socket of sockets) socket.close();
  return refused;
}

export const G10: Proof = {
  id: 'G10',
  group: 'soak',
  claim:
    'After 100 000 sessions opened and abandoned over 10 min, the heap after GC is ≤ base + 32 MiB, and there is no timer, child or descriptor more (F19)',
  shortened: 'four fifths of the sessions and of the ten minutes',
  run: (run) =>
    abandonSessions(run, run.short ? { ...FULL, sessions: FULL.sessions / 5, overMs: FULL.overMs / 5 } : FULL),
};
