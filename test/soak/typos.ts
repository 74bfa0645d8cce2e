import { typosRun } from '../chaos/typos.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

const FULL_MINUTES = 5;

/** The same load and the same mistakes against one gateway and against two nodes, half of the time each. */
async function run({ seed, short, say }: Run): Promise<Outcome> {
  const minutes = short ? 1 : FULL_MINUTES;
  const figures = [figure('duration', minutes, 'min')];
  const broken: string[] = [];
  for (const cluster of [false, true]) {
    const where = cluster ? 'two nodes' : 'one gateway';
    say(where);
    const result = await typosRun({ seed, durationMs: minutes * 30_000, cluster });
    const count = Object.values(result.changes).reduce((sum, n) => sum + n, 0);
    figures.push(
      figure(`${where}: kinds of wrong definitions`, result.kinds.length, ''),
      figure(`${where}: changes`, count, ''),
      figure(`${where}: calls of other servers`, result.calls, ''),
      figure(`${where}: lists`, result.lists, ''),
      figure(`${where}: calls or lists that failed, processes that ended`, result.wrong.length, '', 0),
      figure(`${where}: defects of the gateway itself`, result.defects, '', 0),
      figure(`${where}: median call`, result.p50Ms, 'ms'),
      figure(`${where}: 99 of 100 calls within`, result.p99Ms, 'ms'),
      figure(`${where}: longest call`, result.longestMs, 'ms', 2_000),
    );
    broken.push(...result.wrong, ...result.lacking.map((tool) => `${tool} is not on this machine`));
  }
  return { figures, broken: broken.slice(0, 20) };
}

export const TYPOS: Proof = {
  id: 'typos',
  group: 'chaos',
  claim:
    'Every kind of wrong definition (names, addresses, programs, garbage, certificates, HTTP answers, odd Python and Go servers) is added, changed and removed by file and control API while 8 clients call through one gateway, then through two nodes over NATS: no process ends, no call or list of another server fails, none takes longer than 2 s',
  shortened: 'four of the five minutes',
  run,
};
