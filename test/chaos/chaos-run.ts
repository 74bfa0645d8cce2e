import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../faults/fault-bench.ts';
import { checkLedger, type Violation } from '../faults/ledger/check-ledger.ts';
import type { Attempt, Ending } from '../faults/ledger/history.ts';
import type { Probed } from '../soak/probe.ts';
import { ProbedGateway } from '../soak/probed-gateway.ts';
import { markedProcesses } from '../support/processes.ts';
import { ChaosServers, LEDGERS, PIPES } from './chaos-servers.ts';
import { Crowd } from './crowd.ts';
import { Misfortunes, SETTINGS } from './misfortunes.ts';
import { Seeded } from './seeded.ts';

export interface ChaosOptions {
  readonly seed: number;
  /** Half of it with ends of the gateway itself, half of it without any, so that a leak has time to show. */
  readonly durationMs: number;
  readonly clients: number;
  /** Mean time between two misfortunes. */
  readonly everyMs: number;
  /** Mean time between two ends of the gateway, by SIGTERM or kill -9. */
  readonly restartEveryMs: number;
  /** How much later than its deadline a call may end. */
  readonly lateMs: number;
  readonly say?: (text: string) => void;
}

/** Resources that the gateway uses. */
export interface Held extends Pick<Probed, 'heapBytes' | 'descriptors'> {
  /** Children beyond one of each server: where sessions have their own, one may be spare. */
  readonly extraProcesses: number;
}

export interface ChaosResult {
  readonly violations: readonly Violation[];
  readonly endings: Record<Ending, number>;
  /** Endings of calls to servers from npm, whose answers are checked as well. */
  readonly npmEndings: Record<Ending, number>;
  /** Calls without any answer while the gateway was up. */
  readonly lost: readonly string[];
  /** How often each misfortune happened. */
  readonly misfortunes: Record<string, number>;
  /** Servers from which no client got a result after the end of all misfortunes. */
  readonly dead: readonly string[];
  readonly before: Held;
  readonly after: Held;
  /** The full record of the run, for one that failed. */
  readonly history: object;
}

const TIMEOUT_MS = 4_000;
const REPEATABLE = new Set(['safe', 'safe_slow']);
/** A spare process and a few connections come and go. */
const RESERVED_DESCRIPTORS = 8;

/**
 * A gateway in front of ten servers, with a crowd of clients of both eras, during seeded misfortunes: servers are
 * killed, stopped, hang and flood, sessions come and go, readers stall, the configuration is rewritten, also wrongly, and
 * the gateway itself ends. In the end the ledger is checked, and the used resources are compared with those before.
 */
export async function chaosRun(options: ChaosOptions): Promise<ChaosResult> {
  const run = new ChaosRun(options);
  try {
    return await run.run();
  } finally {
    await run.dispose();
  }
}

class ChaosRun {
  readonly #options: ChaosOptions;
  readonly #gateway = new ProbedGateway();
  readonly #bench = this.#gateway.bench;
  readonly #random: Seeded;
  readonly #ten = new ChaosServers(this.#bench);
  readonly #crowd: Crowd;
  /** Times at which the gateway did not run or was ending. */
  readonly #absences: { from: number; to: number }[] = [];

  constructor(options: ChaosOptions) {
    this.#options = options;
    this.#random = new Seeded(options.seed);
    this.#crowd = new Crowd(this.#bench, new Seeded(options.seed + 1), LEDGERS, this.#ten.npm);
  }

  async run(): Promise<ChaosResult> {
    const { durationMs, clients, restartEveryMs, lateMs } = this.#options;
    const servers = await this.#ten.start(TIMEOUT_MS);
    const misfortunes = new Misfortunes(this.#bench, this.#random, this.#crowd, this.#ten, servers);
    await this.#gateway.start(servers, SETTINGS);
    this.#crowd.begin(clients);
    await this.#suffer(misfortunes, durationMs / 2, restartEveryMs);
    await this.#peace(misfortunes);
    await this.#restart(misfortunes, 'SIGTERM');
    await this.#peace(misfortunes);
    const before = await this.#held();
    this.#crowd.begin(clients);
    await this.#suffer(misfortunes, durationMs / 2, Number.POSITIVE_INFINITY);
    const dead = await this.#peace(misfortunes);
    const after = await this.#held(before);
    const { history } = this.#bench;
    const { npmHistory } = this.#crowd;
    const deadlines = { deadlineMs: TIMEOUT_MS, lateMs };
    const evidence = { ...deadlines, acknowledged: misfortunes.missing, present: [] };
    return {
      violations: [
        ...this.#bench.violations([...LEDGERS, 'added'], { ...evidence, repeatable: REPEATABLE }),
        ...npmViolations(npmHistory.attempts, deadlines),
      ],
      endings: history.endings(),
      npmEndings: npmHistory.endings(),
      lost: this.#lost([...history.attempts, ...npmHistory.attempts]),
      misfortunes: misfortunes.counts,
      dead,
      before,
      after,
      history: {
        seed: this.#options.seed,
        absences: this.#absences,
        attempts: history.attempts,
        npmAttempts: npmHistory.attempts,
        log: this.#bench.gateway.stderr,
      },
    };
  }

  async dispose(): Promise<void> {
    await this.#crowd.stop();
    await this.#ten.kill();
    await this.#bench.dispose();
  }

  async #suffer(misfortunes: Misfortunes, forMs: number, restartEveryMs: number): Promise<void> {
    const { everyMs, say } = this.#options;
    const end = performance.now() + forMs;
    let reported = performance.now();
    const nextRestart = (): number => performance.now() + restartEveryMs * (0.5 + this.#random.unit());
    let restartAt = nextRestart();
    while (performance.now() < end) {
      await sleep(everyMs * (0.5 + this.#random.unit()));
      if (performance.now() >= restartAt) {
        misfortunes.count('restart');
        await this.#restart(misfortunes, this.#random.below(2) === 0 ? 'SIGTERM' : 'SIGKILL');
        restartAt = nextRestart();
      } else await misfortunes.strike();
      if (performance.now() - reported < 30_000) continue;
      reported = performance.now();
      say?.(`${JSON.stringify(this.#bench.history.endings())} ${JSON.stringify(misfortunes.counts)}`);
    }
  }

  async #restart(misfortunes: Misfortunes, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const from = performance.now();
    await this.#bench.gateway.stop(signal);
    await this.#gateway.launch(misfortunes.servers, SETTINGS);
    this.#absences.push({ from, to: performance.now() });
  }

  /**
   * Ends the crowd and all misfortunes, and restarts servers that do not serve, which spares the waits of S3.1. Returns the
   * servers that do not serve after that.
   */
  async #peace(misfortunes: Misfortunes): Promise<string[]> {
    await this.#crowd.stop();
    await misfortunes.end();
    const dead: string[] = [];
    for (const name of this.#ten.names) {
      const serves = async (): Promise<boolean> => (await this.#crowd.probe(name)) === 'RESULT';
      if (await serves()) continue;
      await this.#bench.gateway.control(`/api/v1/servers/${name}/restart`, 'POST');
      if (!(await serves()) && !(await serves())) dead.push(name);
    }
    return dead;
  }

  /** Measures once no session is left; with `base`, once no more is used than then, or after 30 s. */
  async #held(base?: Held): Promise<Held> {
    const open = /^trunkline_sessions_open (\d+)$/m;
    const sessions = async (): Promise<string | undefined> => open.exec(await this.#bench.gateway.metrics())?.[1];
    await until('no session is left', async () => (await sessions()) === '0', 90_000);
    const end = performance.now() + 30_000;
    for (;;) {
      const { heapBytes, descriptors } = await this.#gateway.probe();
      const extraProcesses = markedProcesses(this.#bench.mark).length - PIPES.length - this.#ten.npm.length;
      const held = { heapBytes, descriptors, extraProcesses };
      const fewer =
        base === undefined || (extraProcesses <= 0 && held.descriptors <= base.descriptors + RESERVED_DESCRIPTORS);
      if (fewer || performance.now() > end) return held;
      await sleep(500);
    }
  }

  /** Calls that were never answered although the gateway ran all the time. */
  #lost(attempts: readonly Attempt[]): string[] {
    return attempts
      .filter(({ ending, abandoned }) => ending === 'LOST' && !abandoned)
      .filter(({ startedAt, endedAt }) => !this.#absences.some(({ from, to }) => startedAt <= to && endedAt! >= from))
      .map(({ call, tool, reason }) => `${call} (${tool}): ${reason}`);
  }
}

/** Servers from npm keep no ledger, but each answer shows its request: a correct answer proves that the call ran. */
function npmViolations(
  attempts: readonly Attempt[],
  deadlines: { readonly deadlineMs: number; readonly lateMs: number },
): Violation[] {
  const ran = attempts.filter(({ ending }) => ending === 'RESULT');
  const ledger = ran.map(({ call, tool }) => ({ event: 'executed', call, tool, pid: 0 }) as const);
  return checkLedger({ attempts, ledger, repeatable: new Set(), ...deadlines });
}
