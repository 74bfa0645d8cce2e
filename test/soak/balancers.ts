import { Seeded } from '../chaos/seeded.ts';
import { BALANCERS, type BehindResult, behindBalancer } from '../faults/nodes/behind-balancers.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

const KILLS = 50;
const SHORT_KILLS = 4;
const DATABASE_MS = 30_000;
/** From an immediate restart to one that costs every node its lease. */
const SHORTEST_MS = 100;
const LONGEST_MS = 5_000;

async function run({ seed, short, say }: Run): Promise<Outcome> {
  const random = new Seeded(seed);
  const natsMs = Array.from({ length: short ? SHORT_KILLS : KILLS }, () =>
    Math.round(SHORTEST_MS + (LONGEST_MS - SHORTEST_MS) * random.unit()),
  );
  const results = await Promise.all(
    BALANCERS.map((balancer) =>
      behindBalancer({ seed, balancer, natsMs, databaseMs: DATABASE_MS, restarts: true, say }),
    ),
  );
  const outcomes = results.map(outcomeOf);
  const sum = (of: (result: BehindResult) => number): number => results.reduce((all, result) => all + of(result), 0);
  return {
    figures: [
      figure('times that NATS was killed behind each', natsMs.length, ''),
      figure(
        'calls',
        sum(({ calls }) => calls),
        '',
      ),
      figure(
        'calls without NATS that need no lease',
        sum(({ withoutNats }) => withoutNats),
        '',
      ),
      ...outcomes.flatMap(({ figures }) => figures),
    ],
    broken: outcomes.flatMap(({ broken }) => broken),
  };
}

function outcomeOf(result: BehindResult): Outcome {
  const { balancer, failedWithoutDatabase, failedDuringRestarts, leaselessFailed, violations, killed } = result;
  const wrongExits = result.exitCodes.filter((code) => code !== 0).length;
  return {
    figures: [
      figure(`${balancer}: calls`, result.calls, ''),
      figure(`${balancer}: calls without NATS that need no lease`, result.withoutNats, ''),
      figure(`${balancer}: calls without PostgreSQL`, result.withoutDatabase, ''),
      figure(`${balancer}: calls during restarts`, result.duringRestarts, ''),
      figure(`${balancer}: calls that need no lease and did not end with RESULT`, leaselessFailed.length, '', 0),
      figure(`${balancer}: calls without PostgreSQL that failed`, failedWithoutDatabase.length, '', 0),
      figure(`${balancer}: calls during restarts that failed`, failedDuringRestarts.length, '', 0),
      figure(`${balancer}: violations of the ledger`, violations.length, '', 0),
      figure(`${balancer}: containers that the kubelet would restart`, killed.length, '', 0),
      figure(`${balancer}: nodes that did not end with 0`, wrongExits, '', 0),
    ],
    broken: [...leaselessFailed, ...failedWithoutDatabase, ...failedDuringRestarts, ...violations].slice(0, 20),
  };
}

export const BALANCED: Proof = {
  id: 'balancers',
  group: 'faults',
  claim:
    'G14 behind nginx, HAProxy and a Service with probes as the kubelet makes them: NATS is killed 50 times, PostgreSQL is away for 30 s, and all nodes restart one after the other: every call succeeds that needs no lease, and every call without PostgreSQL and during restarts',
  shortened: `${KILLS - SHORT_KILLS} of ${KILLS} kills`,
  run,
};
