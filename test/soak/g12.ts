import { setTimeout as sleep } from 'node:timers/promises';
import { type Servers, until } from '../faults/fault-bench.ts';
import { EchoCaller, EchoRemote, echoPipe } from './echo-servers.ts';
import { sharesBySessions } from './lowest-priority.ts';
import { BadRemote, type Neighbour, neighbours, Provoker } from './noisy-neighbours.ts';
import { ProbedGateway } from './probed-gateway.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

/**
 * Seven pairs of windows, one without and one right after it with the bad neighbour: other load on the machine usually
 * affects both windows of a pair, and load that affects only one distorts no more than a few of the seven pairs.
 */
const WINDOWS = 7;
const WINDOW_MS = 1_500;
const SHORT_WINDOW_MS = 500;
/** Long enough for the last call of the bad neighbour to reach its deadline. */
const CALM_MS = 1_300;
const CALLERS = 4;
const PAUSE_MS = 4;
/** The longer one lasts until V8 has compiled the hot code: a slow baseline would hide the effect of the neighbour. */
const WARM_UP_MS = 10_000;
const SHORT_WARM_UP_MS = 1_000;
const PROVOKED_MS = 200;
const TRIED_MS = 2_000;
const SETTINGS = { log: { level: 'error' } };

/** What the good servers' callers measured, by server. */
type Times = Record<string, number[]>;

/** A window without the neighbour, and the window with it right after. */
interface Pair {
  readonly alone: Times;
  readonly beside: Times;
  /** Calls of the bad neighbour that got any answer meanwhile; 0 for one that only computes. */
  readonly provoked: number;
}

/** The number of pairs, the length of a window, the pause after each pair, and the time of the warm-up. */
export interface Windows {
  readonly windows: number;
  readonly windowMs: number;
  readonly calmMs: number;
  readonly warmUpMs: number;
}

/**
 * Measures each good server beside each bad one, at a load that leaves spare processor time. The bad one and its callers have
 * the lowest priority and no V8 helper threads, and callers reuse their memory: the system, or a container's limit, bounds
 * their share of the processors; this proof measures their effect on the gateway.
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
        // In a shorter window no call reaches its deadline.
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

  /** Adds the bad neighbour; resolves when its callers have been active for a moment. */
  async moveIn(): Promise<void> {
    const { bench, url } = this.#gateway;
    this.#provoker = await Provoker.start(url, this.#neighbour);
    bench.gateway.rewrite({ ...SETTINGS, mcpServers: { ...this.#good, [this.#name]: this.#neighbour.definition } });
    await until(`${this.#name} is there`, async () => (await this.#state()) !== 'absent');
    // A server that never answers stays in `starting` for longer.
    const end = performance.now() + TRIED_MS;
    while ((await this.#state()) === 'starting' && performance.now() < end) await sleep(50);
    this.#provoker.go();
    await sleep(PROVOKED_MS);
  }

  /** Removes the bad neighbour; returns the number of answers that its callers got. */
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
