import { Seeded } from '../chaos/seeded.ts';
import { outages } from '../faults/nodes/nats-outages.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const KILLS = 50;
const SHORT_KILLS = 4;
const LONG_MS = 60_000;
/** From an immediate restart to one that costs every node its lease. */
const SHORTEST_MS = 100;
const LONGEST_MS = 5_000;

async function run({ seed, short, say }: Run): Promise<Outcome> {
  const random = new Seeded(seed);
  const kills = Array.from({ length: short ? SHORT_KILLS : KILLS }, () =>
    Math.round(SHORTEST_MS + (LONGEST_MS - SHORTEST_MS) * random.unit()),
  );
  const result = await outages({ seed, outagesMs: [...kills, LONG_MS], say });
  const { leaselessFailed, wrong, violations, lost, refusedMs, equalMs } = result;
  return {
    figures: [
      figure('times that NATS was killed', kills.length + 1, ''),
      figure('longest outage', LONG_MS / 1000, 's'),
      figure('calls', result.calls, ''),
      figure('calls that need no lease', result.leaselessCalls, ''),
      figure('calls that need no lease and did not end with RESULT', leaselessFailed.length, '', 0),
      figure('calls refused for want of a lease', refusedMs.length, ''),
      figure('from the end of the lease, or the call, to NOT_SENT, longest', percentile(refusedMs, 100), 'ms', 2_000),
      figure('wrong errors, and calls served without a lease', wrong.length, '', 0),
      figure('changes of servers during the outages that were accepted', result.writes, ''),
      figure('until all nodes show the same servers and nodes, p50', percentile(equalMs, 50), 'ms'),
      figure('until all nodes show the same servers and nodes, longest', percentile(equalMs, 100), 'ms', 3_000),
      figure('processes that were owned during an outage', result.owned, ''),
      figure('owned processes that were not used again', result.ownedEnded, '', 0),
      figure('violations of the ledger, two owners among them', violations.length, '', 0),
      figure('calls without an answer', lost.length, '', 0),
    ],
    broken: [...leaselessFailed, ...wrong, ...violations, ...lost].slice(0, 20),
  };
}

export const G14: Proof = {
  id: 'G14',
  group: 'faults',
  claim:
    'NATS is killed 50 times under load and once stays away for 60 s: all calls that need no lease succeed, others get a retryable NOT_SENT within 2 s, their processes are used again, changes of servers are accepted, and all nodes are equal within 3 s of its return (F28)',
  shortened: `${KILLS - SHORT_KILLS} of ${KILLS} kills`,
  run,
};
