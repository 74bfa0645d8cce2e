import { clusterChaos, wrongs } from '../chaos/cluster-chaos.ts';
import type { ClusterFigures } from '../chaos/cluster-figures.ts';
import { keepHistory } from './chaos-history.ts';
import { bothDeaths, judgeDeaths, NO_DEATHS, remarkable } from './deaths.ts';
import { figure, type Kept, type Outcome, type Proof, type Run } from './proof.ts';

const CLIENTS = 64;
const FULL_PARTS = 6;
const FULL_MINUTES = 60;
/** Duration of one part; `--short` runs one part. */
const MINUTES = Number(process.env['TRUNKLINE_CHAOS_MINUTES'] ?? FULL_MINUTES / FULL_PARTS);
/** Mean time that a client takes between two calls: some fifty calls a second in all, a quarter of what two cores do. */
const PAUSE_MS = 1_000;
const ENDED = 'calls ended ';

/** Sums, and the times for G5, over the finished parts of the run. */
export interface Tally {
  parts: number;
  minutes: number;
  counts: Record<string, number>;
  deaths: ClusterFigures;
  convergedMs: number;
  duplicates: number;
  leaked: number;
  violations: number;
  failedWithoutNeed: number;
  broken: string[];
}

const NOTHING: Tally = {
  parts: 0,
  minutes: 0,
  counts: {},
  deaths: NO_DEATHS,
  convergedMs: 0,
  duplicates: 0,
  leaked: 0,
  violations: 0,
  failedWithoutNeed: 0,
  broken: [],
};

async function run({ seed, short, say, kept }: Run): Promise<Outcome> {
  const tally = tallyOf(kept);
  const parts = short ? 1 : FULL_PARTS;
  while (tally.parts < parts) {
    const partSeed = seed + tally.parts;
    say(`part ${tally.parts + 1} of ${parts}, seed ${partSeed}`);
    await part(partSeed, MINUTES, tally, say).catch((error: unknown) => {
      // The other parts go on, but the claim does not hold.
      const [reason] = String(error).split('\n');
      say(`it could not go on: ${reason}`);
      tally.broken.push(`the part of seed ${partSeed} could not go on: ${reason}`);
    });
    tally.parts++;
    kept.set('cluster', tally);
  }
  const deaths = judgeDeaths(tally.deaths);
  const calls = Object.entries(tally.counts).reduce((sum, [name, n]) => sum + (name.startsWith(ENDED) ? n : 0), 0);
  return {
    figures: [
      figure('duration', tally.minutes, 'min'),
      figure('clients', CLIENTS, ''),
      figure('calls', tally.minutes === 0 ? 0 : calls / (60 * tally.minutes), '/s'),
      ...Object.entries(tally.counts).map(([name, count]) => figure(name, count, '')),
      figure('violations of the ledger, two owners included', tally.violations, '', 0),
      figure('executions beyond one', tally.duplicates, '', 0),
      figure('calls that failed though they needed nothing but their node', tally.failedWithoutNeed, '', 0),
      figure('processes left over', tally.leaked, '', 0),
      ...deaths.figures,
      figure('all nodes show what was acknowledged, after', tally.convergedMs, 'ms', 3_000),
    ],
    broken: [...deaths.broken, ...tally.broken].slice(0, 20),
  };
}

/** The state of an interrupted run. A run of an older version judged deaths by other rules and cannot be resumed. */
export function tallyOf(kept: Pick<Kept, 'get'>): Tally {
  const tally = kept.get<Tally>('cluster') ?? structuredClone(NOTHING);
  if (tally.deaths === undefined) {
    throw new Error('the run that was interrupted is of an older version of this proof: begin anew, without --resume');
  }
  return tally;
}

async function part(seed: number, minutes: number, tally: Tally, say: Run['say']): Promise<void> {
  const keep = (history: object): void => keepHistory(seed, history, say);
  const result = await clusterChaos({
    seed,
    durationMs: minutes * 60_000,
    clients: CLIENTS,
    pauseMs: PAUSE_MS,
    everyMs: 3_000,
    stopMs: 30_000,
    lateMs: 1_000,
    reapedMs: 1_000,
    say,
    keep,
  });
  const wrong = wrongs(result);
  if (wrong.length > 0 || remarkable(result.figures)) keep(result.history);
  const { counts } = tally;
  const add = (kind: string, found: Record<string, number>): void => {
    for (const [name, count] of Object.entries(found)) counts[kind + name] = (counts[kind + name] ?? 0) + count;
  };
  add('misfortune: ', result.misfortunes);
  add(ENDED, result.endings);
  add('of these, by the public subjects: ', result.publicEndings);
  add('changes of servers ', result.writes);
  tally.minutes += minutes;
  tally.deaths = bothDeaths(tally.deaths, result.figures);
  tally.convergedMs = Math.max(tally.convergedMs, result.convergedMs);
  tally.violations += result.violations.length;
  tally.duplicates += result.violations.filter(({ rule }) => rule === 'c').length;
  tally.failedWithoutNeed += result.needless.length;
  tally.leaked += result.leaked.length;
  tally.broken.push(...wrong);
}

export const CLUSTER_CHAOS: Proof = {
  id: 'cluster',
  group: 'chaos',
  claim:
    'Three nodes on NATS and PostgreSQL, with 64 clients of both eras that send each request to any node, under seeded faults (nodes killed, stopped, cut off in one direction or both, slowed, restarted one after the other; NATS and the database killed) keep ledger rules (a)–(f), never have two owners, answer the calls in flight at a dead node within 2 s and leave nothing behind (G2, G4, G5)',
  shortened: `${FULL_MINUTES - MINUTES} of the sixty minutes`,
  run,
};
