import { type RollingResult, rollingRestart } from '../faults/nodes/rolling-restart.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const ROUNDS = 20;
const SHORT_ROUNDS = 2;
const PER_SECOND = 200;
/** With less than this the claim was not tried. */
const ENOUGH_PER_SECOND = 0.9 * PER_SECOND;

async function run({ seed, short, kept, say }: Run): Promise<Outcome> {
  const rounds = short ? SHORT_ROUNDS : ROUNDS;
  const figures = [figure('rounds of three nodes', rounds, '')];
  const broken: string[] = [];
  for (const front of ['proxy', 'failover'] as const) {
    say(front);
    const result =
      kept.get<RollingResult>(front) ?? (await rollingRestart({ seed, rounds, perSecond: PER_SECOND, front, say }));
    kept.set(front, result);
    const { calls, perSecond, restarts, exitCodes, failed, violations, leftInMs, streamsCompleted, streamsCut } =
      result;
    figures.push(
      figure(`${front}: restarts`, restarts, ''),
      figure(`${front}: calls`, calls, ''),
      figure(`${front}: calls`, perSecond, '/s'),
      figure(`${front}: failed`, failed.length, '', 0),
      figure(`${front}: violations of the ledger, duplicates among them`, violations.length, '', 0),
      figure(`${front}: nodes that did not end with 0`, exitCodes.length, '', 0),
      figure(`${front}: from SIGTERM to the end, p50`, percentile(leftInMs, 50) / 1000, 's'),
      figure(`${front}: from SIGTERM to the end, longest`, percentile(leftInMs, 100) / 1000, 's'),
      figure(`${front}: streams that ended in order`, streamsCompleted, ''),
      figure(`${front}: streams that were cut`, streamsCut.length, '', 0),
    );
    if (perSecond < ENOUGH_PER_SECOND) {
      broken.push(`${front}: only ${Math.round(perSecond)} of ${PER_SECOND} calls a second could be made`);
    }
    broken.push(...[...failed, ...violations, ...streamsCut].slice(0, 10).map((text) => `${front}: ${text}`));
  }
  return { figures, broken };
}

export const G8: Proof = {
  id: 'G8',
  group: 'faults',
  claim:
    'A rolling restart of 3 nodes, 20 rounds under 200 calls/s, fails and duplicates no call, behind a proxy that checks readiness and with clients that go to another node when one refuses them (F33)',
  shortened: `${ROUNDS - SHORT_ROUNDS} of ${ROUNDS} rounds`,
  run,
};
