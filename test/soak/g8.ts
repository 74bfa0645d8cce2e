import { type RollingResult, rollingRestart } from '../faults/nodes/rolling-restart.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const ROUNDS = 20;
const SHORT_ROUNDS = 2;
const PER_SECOND = 200;
/** Below this rate the claim was not tested. */
const ENOUGH_PER_SECOND = 0.9 * PER_SECOND;

async function run({ seed, short, kept, say }: Run): Promise<Outcome> {
  const rounds = short ? SHORT_ROUNDS : ROUNDS;
  const figures = [figure('rounds of three nodes', rounds, '')];
  const broken: string[] = [];
  for (const balancer of ['proxy', 'failover'] as const) {
    say(balancer);
    const result =
      kept.get<RollingResult>(balancer) ??
      (await rollingRestart({ seed, rounds, perSecond: PER_SECOND, balancer, say }));
    kept.set(balancer, result);
    const { calls, perSecond, restarts, exitCodes, failed, violations, leftInMs, streamsCompleted, streamsCut } =
      result;
    figures.push(
      figure(`${balancer}: restarts`, restarts, ''),
      figure(`${balancer}: calls`, calls, ''),
      figure(`${balancer}: calls`, perSecond, '/s'),
      figure(`${balancer}: failed`, failed.length, '', 0),
      figure(`${balancer}: violations of the ledger, duplicates among them`, violations.length, '', 0),
      figure(`${balancer}: nodes that did not end with 0`, exitCodes.length, '', 0),
      figure(`${balancer}: from SIGTERM to the end, p50`, percentile(leftInMs, 50) / 1000, 's'),
      figure(`${balancer}: from SIGTERM to the end, longest`, percentile(leftInMs, 100) / 1000, 's'),
      figure(`${balancer}: streams that ended in order`, streamsCompleted, ''),
      figure(`${balancer}: streams that were cut`, streamsCut.length, '', 0),
    );
    if (perSecond < ENOUGH_PER_SECOND) {
      broken.push(`${balancer}: only ${Math.round(perSecond)} of ${PER_SECOND} calls a second could be made`);
    }
    broken.push(...[...failed, ...violations, ...streamsCut].slice(0, 10).map((text) => `${balancer}: ${text}`));
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
