import { setTimeout as sleep } from 'node:timers/promises';
import { EchoCaller, EchoRemote, echoPipe } from './echo-servers.ts';
import { BadRemote, definitions, neighbours, Provoker } from './neighbours.ts';
import { ProbedGateway } from './probed-gateway.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

/**
 * Without and with the bad neighbour, one right after the other, and that seven times: what else the machine does meets
 * both of a pair, and what meets one of them alone is no more than a few of the seven.
 */
const WINDOWS = 7;
const WINDOW_MS = 1_500;
const SHORT_WINDOW_MS = 500;
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
    await gateway.probe();
    const figures = [];
    for (const neighbour of all) {
      const pairs: { readonly alone: Times; readonly beside: Times }[] = [];
      const provoker = await Provoker.start(gateway.url, neighbour);
      for (let window = 0; window < windows; window++) {
        const [alone, beside]: [Times, Times] = [{}, {}];
        await during(alone);
        provoker.go();
        await sleep(200);
        await during(beside);
        pairs.push({ alone, beside });
        provoker.stop();
        await sleep(calmMs);
      }
      provoker.kill();
      const ratios: string[] = [];
      for (const server of Object.keys(good)) {
        const each = pairs.map(({ alone, beside }) => percentile(beside[server]!, 99) / percentile(alone[server]!, 99));
        const ratio = percentile(each, 50);
        const worse = percentile(
          pairs.flatMap(({ beside }) => beside[server]!),
          99,
        );
        ratios.push(`${server} ${ratio.toFixed(2)} × (${each.map((one) => one.toFixed(1)).join(' ')})`);
        figures.push(
          figure(
            `${server} beside ${neighbour.kind}: p99 over its own alone, median of ${windows} pairs`,
            ratio,
            '×',
            2,
          ),
        );
        figures.push(figure(`${server} beside ${neighbour.kind}: p99`, worse, 'ms'));
      }
      const { turnCpuMaxMs } = await gateway.probe();
      figures.push(
        figure(`beside ${neighbour.kind}, the longest turn of the gateway took of a processor`, turnCpuMaxMs, 'ms'),
      );
      say(`${neighbour.kind}: ${ratios.join(', ')}; longest turn ${turnCpuMaxMs.toFixed(1)} ms of a processor`);
    }
    const wrong = callers.reduce((sum, { caller }) => sum + caller.wrongs + caller.refusals, 0);
    const calls = callers.reduce((sum, { caller }) => sum + caller.calls, 0);
    for (const { caller } of callers) caller.close();
    return {
      figures: [
        figure('kinds of bad neighbours', all.length, ''),
        figure('calls of good servers', calls, ''),
        figure('of those, wrong, failed or refused', wrong, '', 0),
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
