import { setTimeout as sleep } from 'node:timers/promises';
import { Seeded } from '../chaos/seeded.ts';
import type { LedgerClient } from '../faults/ledger/ledger-client.ts';
import { EchoCaller, EchoRemote, echoPipe } from './echo-servers.ts';
import { ProbedGateway } from './probed-gateway.ts';
import { figure, type Outcome, type Proof, percentile, type Run } from './proof.ts';

const CALLS = 10_000_000;
/** A fit over less time is inexact: the heap after a collection varies by 0.1 MiB from one sample to the next. */
const MIN_MS = 30 * 60_000;
const SHORT_MS = 10 * 60_000;
const CALLERS = 16;
const SAMPLE_MS = 10_000;
/**
 * The time until the heap of a gateway has its final size: V8 compiles a function when it has run often enough, and
 * again when it has more type feedback. As many calls as possible fail meanwhile, so that code that runs once in a
 * hundred calls is compiled too. Of this time only wrong answers count, neither calls nor memory.
 */
const WARM_UP_MS = 12 * 60_000;
/** The limit of queued faults; above it calls wait too, so that one in a hundred calls fails. */
const MAX_WAITING = 200;
const FAULTS = 0.01;
/** A caller that is refused tries again after this. */
const REFUSED_PAUSE_MS = 50;
const MIB = 1024 * 1024;
const HOUR_MS = 3_600_000;

/** One sample of the gateway. */
interface Sample {
  /** A run that goes on after an interruption has a gateway of its own, with a heap of its own. */
  readonly run: number;
  readonly atMs: number;
  readonly heapBytes: number;
  readonly codeBytes: number;
  readonly rssBytes: number;
}

type Point = Pick<Sample, 'run' | 'atMs' | 'heapBytes'>;

interface Got {
  runs: number;
  /** Of the time after the warm-up, like the faults. */
  calls: number;
  faults: number;
  measuredMs: number;
  wrong: number;
  /** Of the warm-up too, in which more calls fail at once than a busy machine accepts (G20). */
  refused: number;
  samples: Sample[];
}

/** Calls two servers, with one failing call in a hundred at a third one, until there are enough calls. */
async function run({ say, short, kept, seed }: Run): Promise<Outcome> {
  const got = kept.get<Got>('G11') ?? {
    runs: 0,
    calls: 0,
    faults: 0,
    measuredMs: 0,
    wrong: 0,
    refused: 0,
    samples: [],
  };
  got.runs++;
  const gateway = new ProbedGateway();
  const remote = await EchoRemote.start('stateless');
  const wrong: string[] = [];
  try {
    const bad = gateway.bench.stdio('bad', 'stateful', { isolation: 'shared', timeoutMs: 1_000 });
    const servers = { pipe: echoPipe(), remote: { type: 'http', url: remote.url }, bad };
    await gateway.start(servers, { sessions: { idleMs: 10_000 }, log: { level: 'error' } });
    const random = new Seeded(seed + got.runs);
    const begun = performance.now();
    const callers = Array.from(
      { length: CALLERS },
      (_, i) => new EchoCaller(gateway.url, i % 2 === 0 ? 'pipe' : 'remote'),
    );
    let running = true;
    let warm = false;
    const enough = (): boolean => (short ? got.measuredMs >= SHORT_MS : got.calls >= CALLS && got.measuredMs >= MIN_MS);
    const trouble = new Trouble(gateway, random);
    const loops = callers.map(async (caller) => {
      while (running) {
        while (warm && running && trouble.waiting > MAX_WAITING) await sleep(1);
        const { refusals } = caller;
        await caller.call(`text ${got.calls}`);
        if (caller.refusals > refusals) {
          await sleep(REFUSED_PAUSE_MS);
          continue;
        }
        if (warm) got.calls++;
        if (warm ? random.unit() < FAULTS : trouble.waiting < MAX_WAITING) trouble.one();
      }
    });
    while (!enough()) {
      const before = performance.now();
      await sleep(SAMPLE_MS);
      const { heapBytes, codeBytes, rssBytes } = await gateway.probe();
      const atMs = performance.now() - begun;
      if (warm) {
        got.measuredMs += performance.now() - before;
        got.faults += trouble.takeDone();
        got.samples.push({ run: got.runs, atMs, heapBytes, codeBytes, rssBytes });
      } else if (atMs >= WARM_UP_MS) {
        warm = true;
        say(`${trouble.takeDone()} faults to warm up, heap ${(heapBytes / MIB).toFixed(1)} MiB`);
      }
      got.wrong += callers.reduce((sum, caller) => sum + caller.wrongs, 0);
      for (const caller of callers) {
        wrong.push(...caller.wrong.splice(0));
        caller.wrongs = 0;
        got.refused += caller.refusals;
        caller.refusals = 0;
      }
      kept.set('G11', got);
      if (got.samples.length % 6 === 1) {
        say(`${got.calls} calls, ${got.faults} faults, heap ${(heapBytes / MIB).toFixed(1)} MiB`);
      }
    }
    running = false;
    await Promise.all(loops);
    await trouble.end();
    for (const caller of callers) caller.close();
  } finally {
    remote.kill();
    await gateway.bench.dispose();
  }
  return outcomeOf(got, wrong, short);
}

function outcomeOf(got: Got, wrong: readonly string[], short: boolean): Outcome {
  const { samples } = got;
  const firstMs = samples[0]?.atMs ?? 0;
  const first = samples.filter(({ atMs }) => atMs - firstMs < HOUR_MS);
  const most = Math.max(...samples.map(rssOf));
  const ofCode = samples.map((sample) => ({ ...sample, heapBytes: sample.codeBytes }));
  const broken = wrong.slice(0, 10);
  if (!short && got.calls < CALLS) broken.push(`only ${got.calls} calls were made`);
  if (got.faults < 0.99 * FAULTS * got.calls) broken.push(`only ${got.faults} of ${got.calls} calls went wrong`);
  return {
    figures: [
      figure('calls', got.calls, ''),
      figure('calls that went wrong on purpose beside them', got.faults, ''),
      figure('wrong answers of the others', got.wrong, '', 0),
      figure('calls refused with 503 and made again, warm-up included', got.refused, ''),
      figure('runs', got.runs, ''),
      figure('time, each run’s warm-up left out', got.measuredMs / 60_000, 'min'),
      figure('heap after GC, in the middle', percentile(heaps(samples), 50) / MIB, 'MiB'),
      figure('heap after GC, most', Math.max(...heaps(samples)) / MIB, 'MiB'),
      figure('slope of the heap', slopePerHour(samples) / MIB, 'MiB/h', 1),
      figure('standard error of the slope', slopeError(samples) / MIB, 'MiB/h'),
      figure('of the slope, code that V8 compiled', slopePerHour(ofCode) / MIB, 'MiB/h'),
      figure('RSS, most over that of the first hour', most / percentile(first.map(rssOf), 50), '×', 1.5),
    ],
    broken,
  };
}

const rssOf = ({ rssBytes }: Sample): number => rssBytes;
const heaps = (samples: readonly Sample[]): number[] => samples.map(({ heapBytes }) => heapBytes);

/** In bytes, of a line through the samples, by least squares: one slope for all runs, one intercept for each run. */
export function slopePerHour(samples: readonly Point[]): number {
  const { xy, xx } = sums(samples);
  return xx === 0 ? 0 : (xy / xx) * HOUR_MS;
}

function slopeError(samples: readonly Point[]): number {
  const { xy, xx, yy, count, runs } = sums(samples);
  const free = count - runs - 1;
  return xx === 0 || free <= 0 ? 0 : Math.sqrt(Math.max(0, yy - (xy * xy) / xx) / free / xx) * HOUR_MS;
}

function sums(samples: readonly Point[]): { xy: number; xx: number; yy: number; count: number; runs: number } {
  const runs = Map.groupBy(samples, (sample) => sample.run);
  const all = { xy: 0, xx: 0, yy: 0, count: samples.length, runs: runs.size };
  for (const ofRun of runs.values()) {
    const meanX = ofRun.reduce((sum, { atMs }) => sum + atMs, 0) / ofRun.length;
    const meanY = ofRun.reduce((sum, { heapBytes }) => sum + heapBytes, 0) / ofRun.length;
    for (const { atMs, heapBytes } of ofRun) {
      all.xy += (atMs - meanX) * (heapBytes - meanY);
      all.xx += (atMs - meanX) ** 2;
      all.yy += (heapBytes - meanY) ** 2;
    }
  }
  return all;
}

/** Makes the failing calls, a few at a time; further ones wait in a queue, and none is dropped. */
class Trouble {
  readonly #gateway: ProbedGateway;
  readonly #random: Seeded;
  readonly #clients: LedgerClient[];
  waiting = 0;
  #done = 0;
  #lanes: Promise<void>[];
  #running = true;

  constructor(gateway: ProbedGateway, random: Seeded) {
    this.#gateway = gateway;
    this.#random = random;
    this.#clients = Array.from({ length: 16 }, (_, i) =>
      gateway.bench.client(`bad${i}`, i % 2 === 0 ? 'stateful' : 'stateless'),
    );
    this.#lanes = this.#clients.map((client) => this.#live(client));
  }

  one(): void {
    this.waiting++;
  }

  /** How many calls failed since the last call of this method. */
  takeDone(): number {
    const done = this.#done;
    this.#done = 0;
    return done;
  }

  async end(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#lanes);
  }

  async #live(client: LedgerClient): Promise<void> {
    while (this.#running) {
      if (this.waiting === 0) {
        await sleep(5);
        continue;
      }
      this.waiting--;
      await this.#fail(client).catch(() => sleep(10));
      this.#done++;
      // The recorded attempts are not used, and would fill the memory in a run of days.
      this.#gateway.bench.history.attempts.length = 0;
    }
  }

  async #fail(client: LedgerClient): Promise<void> {
    if (client.era === 'stateful' && (client.sessionId === null || this.#random.unit() < 0.1)) await client.open();
    const kind = this.#random.below(1_000);
    if (kind < 2) await client.call('bad__crash_after');
    else if (kind < 4) await client.call('bad__hang');
    else if (kind < 6) await client.call('bad__half_and_die');
    else if (kind < 300) await client.call('bad__say', { text: 'no message\n{"jsonrpc":"2.0","id":99,"result":{}}\n' });
    else if (kind < 500) await client.call('bad__slow', { ms: 20 }, { abandonAfterMs: 5 });
    else if (kind < 700) await client.call('bad__no_such_tool');
    else if (kind < 800) await client.call('nobody__safe');
    else await client.request('resources/read', { uri: 'file:///nowhere' });
  }
}

export const G11: Proof = {
  id: 'G11',
  group: 'soak',
  claim:
    'In 10 million calls with 1 % faults the heap grows by ≤ 1 MiB/h by linear fit, and RSS stays ≤ 1.5 × that of the first hour',
  shortened: 'all but ten minutes after the warm-up',
  run,
};
