import { setTimeout as sleep } from 'node:timers/promises';
import { EchoCaller, EchoRemote, echoPipe } from './echo-servers.ts';
import { BadRemote, definitions, neighbours, Provoker } from './neighbours.ts';
import { ProbedGateway } from './probed-gateway.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

/** Alternating with and without the bad neighbour, so that what else the machine does meets both. */
const WINDOWS = 3;
const WINDOW_MS = 3_000;
const SHORT_WINDOW_MS = 1_000;
/** Until the last call of the bad one has met its deadline. */
const CALM_MS = 1_300;
const CALLERS = 4;
const PAUSE_MS = 4;

/** What the good servers' callers measured, by server. */
type Times = Record<string, number[]>;

/** How often and for how long each pair is looked at, and how long the bad one is left alone after it. */
export interface Windows {
  readonly windows: number;
  readonly windowMs: number;
  readonly calmMs: number;
}

/** Each good server beside each bad one, at a load that leaves the machine room. */
export async function besideBadNeighbours({ say }: Pick<Run, 'say'>, options: Windows): Promise<Outcome> {
  const { windows, windowMs, calmMs } = options;
  const gateway = new ProbedGateway();
  const remotes = { stateful: await EchoRemote.start('stateful'), stateless: await EchoRemote.start('stateless') };
  const bad = await BadRemote.start();
  try {
    const all = neighbours(gateway.bench, bad);
    const good = {
      good_pipe: echoPipe(),
      good_old: { type: 'http', url: remotes.stateful.url },
      good_modern: { type: 'http', url: remotes.stateless.url },
    };
    await gateway.launch({ ...good, ...definitions(all) }, { log: { level: 'error' } });
    await gateway.bench.gateway.ready(...Object.keys(good));
    const callers = Object.keys(good).flatMap((server) =>
      Array.from({ length: CALLERS }, () => ({ server, caller: new EchoCaller(gateway.url, server) })),
    );
    const during = async (times: Times): Promise<void> => {
      const end = performance.now() + windowMs;
      await Promise.all(
        callers.map(async ({ server, caller }) => {
          while (performance.now() < end) {
            (times[server] ??= []).push(await caller.call('hello'));
            await sleep(PAUSE_MS);
          }
        }),
      );
    };
    await during({});
    const figures = [];
    for (const neighbour of all) {
      const [alone, beside]: [Times, Times] = [{}, {}];
      const provoker = await Provoker.start(gateway.url, neighbour);
      for (let window = 0; window < windows; window++) {
        await during(alone);
        provoker.go();
        await sleep(200);
        await during(beside);
        provoker.stop();
        await sleep(calmMs);
      }
      provoker.kill();
      const ratios: string[] = [];
      for (const server of Object.keys(good)) {
        const [base, worse] = [percentile(alone[server]!, 99), percentile(beside[server]!, 99)];
        ratios.push(`${server} ${base.toFixed(1)} → ${worse.toFixed(1)} ms`);
        figures.push(figure(`${server} beside ${neighbour.kind}: p99 over its own alone`, worse / base, '×', 2));
        figures.push(figure(`${server} beside ${neighbour.kind}: p99`, worse, 'ms'));
      }
      say(`${neighbour.kind}: ${ratios.join(', ')}`);
    }
    const wrong = callers.reduce((sum, { caller }) => sum + caller.wrongs, 0);
    const calls = callers.reduce((sum, { caller }) => sum + caller.calls, 0);
    for (const { caller } of callers) caller.close();
    return {
      figures: [
        figure('kinds of bad neighbours', all.length, ''),
        figure('calls of good servers', calls, ''),
        figure('of those, wrong or failed', wrong, '', 0),
        ...figures,
      ],
      broken: callers.flatMap(({ server, caller }) => caller.wrong.map((text) => `${server}: ${text}`)).slice(0, 10),
    };
  } finally {
    for (const remote of Object.values(remotes)) remote.kill();
    await gateway.bench.dispose();
    bad.close();
  }
}

export const G12: Proof = {
  id: 'G12',
  group: 'faults',
  claim: 'One bad neighbour of each kind: p99 of the other servers’ calls ≤ 2 × what it is without, pair by pair',
  shortened: 'two thirds of the time for each pair',
  run: ({ say, short }) =>
    besideBadNeighbours({ say }, { windows: WINDOWS, windowMs: short ? SHORT_WINDOW_MS : WINDOW_MS, calmMs: CALM_MS }),
};
