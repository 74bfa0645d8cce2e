import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { survivors } from '../support/processes.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import {
  closedRun,
  killedRun,
  markedServers,
  type ProcessPeak,
  type ShortRun,
  watchProcesses,
} from '../support/short-runs.ts';
import { type Figure, figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const RUNS = 200;
const LASTS_MS = 10 * 60_000;
const AT_ONCE = 50;
/** The limit of a node, and a few processes that end while their replacements start. */
const MAX_PROCESSES = 256 + 16;
/** With `--short`. */
const FEW = { runs: 20, lastsMs: 60_000, atOnce: 8 };

/** One run in so many is killed, the others close their connections. None ends its session. */
const KILLED = 4;

async function run({ short, say }: Run): Promise<Outcome> {
  const { runs, lastsMs, atOnce } = short ? FEW : { runs: RUNS, lastsMs: LASTS_MS, atOnce: AT_ONCE };
  const mark = randomUUID();
  const gateway = await RunningGateway.start({ config: { mcpServers: markedServers(mark) } });
  const problems: string[] = [];
  const figures: Figure[] = [];
  try {
    await gateway.ready();
    const one = (number: number): Promise<ShortRun> => (number % KILLED === 0 ? killedRun : closedRun)(gateway.mcpUrl);
    const add = (name: string, all: readonly ShortRun[], peak: ProcessPeak): void => {
      problems.push(...all.flatMap((each) => each.problems));
      figures.push(...figuresOf(name, all, peak));
      say(`${name}: ${all.length} runs, ${peak.processes} processes at most, ${Math.round(peak.proportionalMiB)} MiB`);
    };
    const paced = watchProcesses(gateway);
    const begun = performance.now();
    const apart = await Promise.all(
      Array.from({ length: runs }, async (_, i) => {
        await delay((lastsMs / runs) * i);
        return one(i);
      }),
    );
    figures.push(figure('time for the runs one after another', (performance.now() - begun) / 1000, 's'));
    await paced.stop();
    add('one after another', apart, paced.peak);
    const together = watchProcesses(gateway);
    const crowd = await Promise.all(Array.from({ length: atOnce }, (_, i) => one(i)));
    await together.stop();
    add('at once', crowd, together.peak);
  } finally {
    await gateway.dispose();
  }
  const left = await survivors(mark, 5_000);
  return {
    figures: [
      ...figures,
      figure('calls refused or failed', problems.length, '', 0),
      figure('processes left', left.length, '', 0),
    ],
    broken: [...new Set(problems)].slice(0, 10),
  };
}

function figuresOf(name: string, all: readonly ShortRun[], peak: ProcessPeak): Figure[] {
  const calls = all.flatMap(({ callMs }) => callMs);
  const connects = all.map(({ connectMs }) => connectMs);
  return [
    figure(`${name}: runs`, all.length, ''),
    figure(`${name}: server processes at most, with those that are ending`, peak.processes, '', MAX_PROCESSES),
    figure(`${name}: memory of the server processes at most`, peak.proportionalMiB, 'MiB'),
    figure(`${name}: connect, p50`, percentile(connects, 50), 'ms'),
    figure(`${name}: connect, p99`, percentile(connects, 99), 'ms'),
    figure(`${name}: first call on a server, p50`, percentile(calls, 50), 'ms'),
    figure(`${name}: first call on a server, p95`, percentile(calls, 95), 'ms'),
    figure(`${name}: first call on a server, p99`, percentile(calls, 99), 'ms'),
  ];
}

export const RUNS_OF_AGENTS: Proof = {
  id: 'runs',
  group: 'soak',
  claim:
    'Two hundred short runs of agents in ten minutes on four servers from npm with the default configuration, then fifty at once, none of which ends its session: none is refused, nothing is left',
  shortened: 'all but twenty of the two hundred runs and eight of the fifty',
  run,
};
