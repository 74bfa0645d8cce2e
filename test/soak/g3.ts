import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigKills, type ConfigKillsState } from '../faults/config-kills.ts';
import { canKillAtFsync, killAtFsync } from '../faults/fsync-kills.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

const KILLS = 500;
const FSYNCS = 40;

/** The results so far, kept over interruptions. */
interface Kept {
  readonly state: ConfigKillsState;
  readonly rounds: number;
  readonly acknowledged: number;
  readonly cut: number;
  readonly cutAndMade: number;
  readonly violations: readonly string[];
}

async function run({ seed, say, kept }: Run): Promise<Outcome> {
  const broken: string[] = [];
  const fsyncs = await atFsyncs(broken);
  say(`${fsyncs} fsync points`);
  let so: Omit<Kept, 'state'> = kept.get<Kept>('g3') ?? {
    rounds: 0,
    acknowledged: 0,
    cut: 0,
    cutAndMade: 0,
    violations: [],
  };
  const kills = new ConfigKills(seed + so.rounds, kept.get<Kept>('g3')?.state ?? null);
  const base = so;
  for (let round = so.rounds; round < KILLS; round++) {
    await kills.round();
    so = {
      rounds: round + 1,
      acknowledged: base.acknowledged + kills.acknowledged,
      cut: base.cut + kills.cut,
      cutAndMade: base.cutAndMade + kills.cutAndMade,
      violations: [...base.violations, ...kills.violations],
    };
    kept.set('g3', { state: kills.state, ...so });
    if ((round + 1) % 50 === 0) say(`${round + 1} kills, ${so.acknowledged} changes acknowledged`);
  }
  await kills.finish();
  const violations = [...base.violations, ...kills.violations, ...broken];
  return {
    figures: [
      figure('kills at random instants', so.rounds, ''),
      figure('kills at the n-th fsync', fsyncs, ''),
      figure('changes acknowledged', so.acknowledged, ''),
      figure('changes cut off by a kill', so.cut, ''),
      figure('changes cut off and yet made', so.cutAndMade, ''),
      figure('acknowledged changes lost or half made', violations.length, '', 0),
    ],
    broken: violations.slice(0, 20),
  };
}

async function atFsyncs(broken: string[]): Promise<number> {
  if (!canKillAtFsync()) {
    broken.push('there is no strace here: the fsync points were not tried');
    return 0;
  }
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-fsync-'));
  try {
    for (let n = 1; n <= FSYNCS; n++) {
      const { killed, violation } = await killAtFsync(folder, n);
      if (violation !== null || !killed) broken.push(`fsync ${n}: ${violation ?? 'not reached'}`);
    }
    return FSYNCS;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export const G3: Proof = {
  id: 'G3',
  group: 'faults',
  claim: 'No acknowledged configuration write is lost over 500 kill -9 at random instants and 40 at fsync points (F36)',
  shortened: null,
  run,
};
