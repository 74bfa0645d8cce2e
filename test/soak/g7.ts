import { FaultBench } from '../faults/fault-bench.ts';
import { gatewayCycles } from '../faults/gateway-cycles.ts';
import { processCycles } from '../support/process-cycles.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const SERVER_CYCLES = 1_000;
const STEP = 100;
const GATEWAY_CYCLES = 110;

interface Got {
  cycles: number;
  started: number;
  leaked: number;
  slowestMs: number;
}

async function run({ say, kept }: Run): Promise<Outcome> {
  const got = kept.get<Got>('servers') ?? { cycles: 0, started: 0, leaked: 0, slowestMs: 0 };
  while (got.cycles < SERVER_CYCLES) {
    const result = await processCycles({ cycles: STEP, lanes: 8 });
    got.cycles += STEP;
    got.started += result.started;
    got.leaked += result.leaked.length;
    got.slowestMs = Math.max(got.slowestMs, result.slowestMs);
    kept.set('servers', got);
    say(`${got.cycles} start and kill cycles of servers, ${got.leaked} leaked`);
  }
  const bench = new FaultBench(null);
  try {
    const { started, leaked, goneMs, killedMs } = await gatewayCycles(bench, {
      cycles: GATEWAY_CYCLES,
      kills: (i) => i % 11 !== 10,
      onCycle: (done) => {
        if (done % 20 === 0) say(`${done} cycles of the gateway`);
      },
    });
    return {
      figures: [
        figure('start and kill cycles of servers', got.cycles, ''),
        figure('processes of these cycles', got.started, ''),
        figure('leaked', got.leaked, '', 0),
        figure('slowest stop of a server, by its ladder', got.slowestMs, 'ms'),
        figure('cycles of the gateway with four servers', goneMs.length, ''),
        figure('kill -9 of the gateway', killedMs.length, ''),
        figure('processes of these cycles', started, ''),
        figure('leaked by the gateway', leaked.length, '', 0),
        figure('servers gone after kill -9, p50', percentile(killedMs, 50), 'ms'),
        figure('servers gone after kill -9, p99', percentile(killedMs, 99), 'ms'),
        figure('servers gone after kill -9, longest', Math.max(...killedMs), 'ms', 1_000),
        figure('servers gone after SIGTERM and exit, longest', Math.max(...goneMs), 'ms', 1_000),
      ],
      broken: killedMs.length < 100 ? [`only ${killedMs.length} kills were done`] : [],
    };
  } finally {
    await bench.dispose();
  }
}

export const G7: Proof = {
  id: 'G7',
  group: 'faults',
  claim: 'No process leaks in 1 000 start and kill cycles and 100 × kill -9 of the gateway; all are gone within 1 s',
  shortened: null,
  run,
};
