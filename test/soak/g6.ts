import { crashRun } from '../faults/crash-run.ts';
import { FaultBench } from '../faults/fault-bench.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

async function run({ say }: Run): Promise<Outcome> {
  const bench = new FaultBench(null);
  try {
    const kills = 200;
    const { reportedMs, backMs, unexpected } = await crashRun(bench, { kills, clients: 16 });
    const violations = bench.violations(['shared'], { repeatable: new Set(['safe', 'safe_slow']) });
    const endings = bench.history.endings();
    say(`${kills} kills, ${bench.history.attempts.length} calls: ${JSON.stringify(endings)}`);
    return {
      figures: [
        figure('kills', kills, ''),
        figure('calls', bench.history.attempts.length, ''),
        figure('calls answered UNKNOWN', endings.UNKNOWN, ''),
        figure('error to the caller, p50', percentile(reportedMs, 50), 'ms'),
        figure('error to the caller, p99', percentile(reportedMs, 99), 'ms', 100),
        figure('server back, p50', percentile(backMs, 50), 'ms'),
        figure('server back, p99', percentile(backMs, 99), 'ms', 1_500),
        figure('violations of the ledger', violations.length, '', 0),
        figure('other failures', unexpected.length, '', 0),
      ],
      broken: [...violations.map(({ rule, call, text }) => `(${rule}) ${call}: ${text}`), ...unexpected].slice(0, 20),
    };
  } finally {
    await bench.dispose();
  }
}

export const G6: Proof = {
  id: 'G6',
  group: 'faults',
  claim:
    'When a stdio server crashes, the caller gets an error within 100 ms and the server is back within 1.5 s, both at p99 (F03: 200 kills, 16 clients, ledger)',
  shortened: null,
  run,
};
