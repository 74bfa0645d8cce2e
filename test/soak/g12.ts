import { setTimeout as sleep } from 'node:timers/promises';
import { type Servers, until } from '../faults/fault-bench.ts';
import { EchoCaller, EchoRemote, echoPipe } from './echo-servers.ts';
import { sharesBySessions } from './lowest-priority.ts';
import { BadRemote, type Neighbour, neighbours, Provoker } from './noisy-neighbours.ts';
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
/** The longer one is until V8 has compiled what is hot: whoever is slow alone hides what makes him slow beside others. */
const WARM_UP_MS = 10_000;
const SHORT_WARM_UP_MS = 1_000;
const PROVOKED_MS = 200;
const TRIED_MS = 2_000;
const SETTINGS = { log: { level: 'error' } };

/** What the good servers' callers measured, by server. */
type Times = Record<string, number[]>;

/** Without the neighbour, and right after it with it. */
interface Pair {
  readonly alone: Times;
  readonly beside: Times;
  /** Calls of the bad one that were answered meanwhile, whatever with; 0 for what only computes. */
  readonly provoked: number;
}

/** How often and for how long each pair is looked at, and how long the bad one is left alone after it. */
export interface Windows {
  readonly windows: number;
  readonly windowMs: number;
  readonly calmMs: number;
  readonly warmUpMs: number;
}

/**
 * Each good server beside each bad one, at a load that leaves the machine room. The bad one and its callers have the lowest
 * priority there is and no threads that help V8, and callers use their memory again: what they take of the processors, the
 * system shares out, or a container's limit; what they take of the gateway is looked at here.
 */
export async function besideBadNeighbours({ say }: Pick<Run, 'say'>, options: Windows): Promise<Outcome> {
  if (sharesBySessions()) say('kernel.sched_autogroup_enabled is 1: what is measured is the scheduler');
  const gateway = new ProbedGateway();
  const remotes = { stateful: await EchoRemote.start('stateful'), stateless: await EchoRemote.start('stateless') };
  const bad = await BadRemote.start();
  try {
    const good = {
      good_pipe: echoPipe(),
      good_old: { type: 'http', url: remotes.stateful.url },
      good_modern: { type: 'http', url: remotes.stateless.url },
    };
    await gateway.start(good, SETTINGS);
    const callers = new Callers(gateway.url, Object.keys(good));
    const kinds = neighbours(gateway.bench, bad);
    await callers.during(options.warmUpMs);
    const figures = [];
    for (const neighbour of kinds) {
      const street = new Street(gateway, good, neighbour);
      const pairs = await lookAt(street, callers, options);
      const ratios: string[] = [];
      for (const server of Object.keys(good)) {
        const each = pairs.map(({ alone, beside }) => percentile(beside[server]!, 99) / percentile(alone[server]!, 99));
        const ratio = percentile(each, 50);
        const besides = pairs.flatMap(({ beside }) => beside[server]!);
        const name = `${server} beside ${neighbour.kind}: p99`;
        ratios.push(`${server} ${ratio.toFixed(2)} × (${each.map((one) => one.toFixed(1)).join(' ')})`);
        const limit = neighbour.tool === null ? null : 2;
        figures.push(figure(`${name} over its own alone, median of ${pairs.length} pairs`, ratio, '×', limit));
        figures.push(figure(name, percentile(besides, 99), 'ms'));
      }
      const provoked = pairs.map((pair) => pair.provoked);
      if (neighbour.tool !== null) {
        const none = provoked.filter((answers) => answers === 0).length;
        // In a shorter window no call comes to its deadline.
        const noneAtMost = options.windowMs < WINDOW_MS ? null : 0;
        const median = percentile(provoked, 50);
        figures.push(figure(`beside ${neighbour.kind}: calls that it answered in a window, median`, median, ''));
        figures.push(figure(`beside ${neighbour.kind}: windows in which it answered no call`, none, '', noneAtMost));
      }
      const { turnCpuMaxMs } = await gateway.probe();
      figures.push(
        figure(`beside ${neighbour.kind}: longest turn of the gateway, in processor time`, turnCpuMaxMs, 'ms'),
      );
      say(
        `${neighbour.kind}: ${ratios.join(', ')}; longest turn ${turnCpuMaxMs.toFixed(1)} ms of a processor; provoked ${provoked.join(' ')} times`,
      );
    }
    callers.close();
    return {
      figures: [
        figure('kinds of bad neighbours', kinds.filter(({ tool }) => tool !== null).length, ''),
        figure('calls of good servers', callers.calls, ''),
        figure('calls of good servers that were wrong, failed or refused', callers.failures, '', 0),
        ...figures,
      ],
      broken: callers.wrong.slice(0, 10),
    };
  } finally {
    for (const remote of Object.values(remotes)) remote.kill();
    await gateway.bench.dispose();
    bad.kill();
  }
}

async function lookAt(street: Street, callers: Callers, { windows, windowMs, calmMs }: Windows): Promise<Pair[]> {
  const pairs: Pair[] = [];
  try {
    for (let window = 0; window < windows; window++) {
      const alone = await callers.during(windowMs);
      await street.moveIn();
      const beside = await callers.during(windowMs);
      pairs.push({ alone, beside, provoked: await street.moveOut() });
      await sleep(calmMs);
    }
  } finally {
    street.calmDown();
  }
  return pairs;
}

/** The good servers with and without one bad neighbour, by the gateway's file. */
class Street {
  readonly #gateway: ProbedGateway;
  readonly #good: Servers;
  readonly #neighbour: Neighbour;
  #provoker: Provoker | null = null;

  constructor(gateway: ProbedGateway, good: Servers, neighbour: Neighbour) {
    this.#gateway = gateway;
    this.#good = good;
    this.#neighbour = neighbour;
  }

  get #name(): string {
    return `bad_${this.#neighbour.kind}`;
  }

  /** Until it does its worst. */
  async moveIn(): Promise<void> {
    const { bench, url } = this.#gateway;
    this.#provoker = await Provoker.start(url, this.#neighbour);
    bench.gateway.rewrite({ ...SETTINGS, mcpServers: { ...this.#good, [this.#name]: this.#neighbour.definition } });
    await until(`${this.#name} is there`, async () => (await this.#state()) !== 'absent');
    // One that is silent is still being tried then.
    const end = performance.now() + TRIED_MS;
    while ((await this.#state()) === 'starting' && performance.now() < end) await sleep(50);
    this.#provoker.go();
    await sleep(PROVOKED_MS);
  }

  /** The answers that the bad one's callers got. */
  async moveOut(): Promise<number> {
    const answers = this.#neighbour.tool === null ? 0 : ((await this.#provoker?.stop()) ?? 0);
    this.calmDown();
    this.#gateway.bench.gateway.rewrite({ ...SETTINGS, mcpServers: this.#good });
    await until(`${this.#name} is gone`, async () => (await this.#state()) === 'absent');
    return answers;
  }

  calmDown(): void {
    this.#provoker?.kill();
    this.#provoker = null;
  }

  async #state(): Promise<string> {
    const { servers } = await this.#gateway.bench.gateway.control<{ servers: { name: string; state: string }[] }>(
      '/api/v1/servers',
    );
    return servers.find(({ name }) => name === this.#name)?.state ?? 'absent';
  }
}

/** A few for each good server, each with one call at a time. */
class Callers {
  readonly #all: readonly { readonly server: string; readonly caller: EchoCaller }[];

  constructor(url: URL, servers: readonly string[]) {
    this.#all = servers.flatMap((server) =>
      Array.from({ length: CALLERS }, () => ({ server, caller: new EchoCaller(url, server) })),
    );
  }

  async during(windowMs: number): Promise<Times> {
    const times: Times = {};
    const end = performance.now() + windowMs;
    await Promise.all(
      this.#all.map(async ({ server, caller }) => {
        while (performance.now() < end) {
          (times[server] ??= []).push(await caller.call('hello'));
          await sleep(PAUSE_MS);
        }
      }),
    );
    return times;
  }

  get calls(): number {
    return this.#all.reduce((sum, { caller }) => sum + caller.calls, 0);
  }

  get failures(): number {
    return this.#all.reduce((sum, { caller }) => sum + caller.wrongs + caller.refusals, 0);
  }

  get wrong(): string[] {
    return this.#all.flatMap(({ server, caller }) => caller.wrong.map((text) => `${server}: ${text}`));
  }

  close(): void {
    for (const { caller } of this.#all) caller.close();
  }
}

export const G12: Proof = {
  id: 'G12',
  group: 'faults',
  claim:
    'Beside one bad neighbour of each kind, p99 of calls to the other servers is ≤ 2 × what it is without, pair by pair',
  shortened: 'two thirds of the time for each pair, and nine tenths of the warming up',
  run: ({ say, short }) => {
    const shortly = { windowMs: SHORT_WINDOW_MS, warmUpMs: SHORT_WARM_UP_MS };
    const fully = { windowMs: WINDOW_MS, warmUpMs: WARM_UP_MS };
    return besideBadNeighbours({ say }, { windows: WINDOWS, calmMs: CALM_MS, ...(short ? shortly : fully) });
  },
};
