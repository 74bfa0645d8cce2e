import { clusterChaos } from '../chaos/cluster-chaos.ts';
import { keepHistory } from './chaos-history.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

const CALLS = 1_000_000;
const SHORT_CALLS = 10_000;
const PART_MS = 120_000;

interface Tally {
  parts: number;
  calls: number;
  duplicates: number;
  others: number;
  misfortunes: Record<string, number>;
  broken: string[];
}

async function run({ seed, short, kept, say }: Run): Promise<Outcome> {
  const tally = kept.get<Tally>('G4') ?? { parts: 0, calls: 0, duplicates: 0, others: 0, misfortunes: {}, broken: [] };
  const wanted = short ? SHORT_CALLS : CALLS;
  while (tally.calls < wanted) {
    say(`part ${tally.parts + 1}, seed ${seed + tally.parts}`);
    const { endings, violations, misfortunes, history } = await clusterChaos({
      seed: seed + tally.parts,
      durationMs: PART_MS,
      clients: 64,
      pauseMs: 0,
      everyMs: 4_000,
      stopMs: 6_000,
      lateMs: 2_000,
      reapedMs: 5_000,
    });
    if (violations.length > 0) keepHistory(seed + tally.parts, history, say);
    tally.parts++;
    tally.calls += Object.values(endings).reduce((sum, count) => sum + count, 0);
    const twice = violations.filter(({ rule }) => rule === 'c');
    tally.duplicates += twice.length;
    tally.others += violations.length - twice.length;
    for (const [kind, count] of Object.entries(misfortunes)) {
      tally.misfortunes[kind] = (tally.misfortunes[kind] ?? 0) + count;
    }
    const found = violations.map(
      ({ rule, call, text }) => `seed ${seed + tally.parts - 1}: (${rule}) ${call}: ${text}`,
    );
    tally.broken = [...tally.broken, ...found].slice(0, 20);
    kept.set('G4', tally);
    say(`${tally.calls} of ${wanted} calls, ${tally.duplicates} executed twice`);
  }
  return {
    figures: [
      figure('calls', tally.calls, ''),
      ...Object.entries(tally.misfortunes).map(([kind, count]) => figure(`misfortune: ${kind}`, count, '')),
      figure('calls of tools that must not be repeated, executed twice', tally.duplicates, '', 0),
      figure('other violations of the ledger', tally.others, '', 0),
    ],
    broken: tally.broken,
  };
}

export const G4: Proof = {
  id: 'G4',
  group: 'faults',
  claim:
    'In a million calls through three nodes that are killed, stopped, cut off and restarted with their NATS and PostgreSQL, no tool that must not be repeated runs twice',
  shortened: 'all but ten thousand of the million calls',
  run,
};
