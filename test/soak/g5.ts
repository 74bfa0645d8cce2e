import { type LossResult, loseNodes } from '../faults/nodes/node-losses.ts';
import { type Figure, figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const LOSSES = 200;
const SHORT_LOSSES = 5;
/** Losses in one world; an interrupted run goes on after its last complete world. */
const PART = 20;

async function run({ seed, short, kept, say }: Run): Promise<Outcome> {
  const wanted = short ? SHORT_LOSSES : LOSSES;
  const done = kept.get<LossResult[]>('G5') ?? [];
  while (done.length * PART < wanted) {
    const losses = Math.min(PART, wanted - done.length * PART);
    say(`kills ${done.length * PART + 1} to ${done.length * PART + losses} of ${wanted}, seed ${seed + done.length}`);
    done.push(await loseNodes({ seed: seed + done.length, losses, clients: 64, say }));
    kept.set('G5', done);
  }
  const all = (times: (result: LossResult) => readonly number[]): number[] => done.flatMap((result) => times(result));
  const violations = done.flatMap((one) => one.violations);
  const lost = done.flatMap((one) => one.lost);
  return {
    figures: [
      figure('nodes killed', all((one) => one.childrenMs).length, ''),
      figure(
        'calls',
        done.reduce((sum, { calls }) => sum + calls, 0),
        '',
      ),
      ...spread(
        'from the kill to UNKNOWN, at other nodes',
        all((one) => one.unknownMs),
        { longest: 2_000 },
      ),
      ...spread(
        'until a client is served again, where that needs no new process',
        all((one) => one.servedMs),
        { p99: 3_000 },
      ),
      ...spread(
        'until the new process of a session begins, where it does',
        all((one) => one.rebornMs),
        { p99: 3_000 },
      ),
      ...spread(
        'and from there to its result',
        all((one) => one.spawnMs),
        {},
      ),
      ...spread(
        'until the children of the dead node are gone',
        all((one) => one.childrenMs),
        { longest: 1_000 },
      ),
      figure('violations of the ledger, two owners among them', violations.length, '', 0),
      figure('calls without an answer though their node was up', lost.length, '', 0),
      figure(
        'processes left over',
        done.reduce((sum, { left }) => sum + left, 0),
        '',
        0,
      ),
    ],
    broken: [...violations, ...lost].slice(0, 20),
  };
}

function spread(name: string, times: readonly number[], most: { p99?: number; longest?: number }): Figure[] {
  return [
    figure(`${name}, p50 of ${times.length}`, percentile(times, 50), 'ms'),
    figure(`${name}, p99`, percentile(times, 99), 'ms', most.p99 ?? null),
    figure(`${name}, longest`, percentile(times, 100), 'ms', most.longest ?? null),
  ];
}

export const G5: Proof = {
  id: 'G5',
  group: 'faults',
  claim:
    'One of 3 nodes gets kill -9 under 64 clients, 200 times: its calls in flight end with UNKNOWN within 2 s, its sessions are served again within 3 s at p99 (plus the start of a process where theirs died), its children are gone within 1 s (F30)',
  shortened: `${LOSSES - SHORT_LOSSES} of ${LOSSES} kills`,
  run,
};
