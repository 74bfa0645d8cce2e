import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FaultBench, type Servers, until } from '../faults/fault-bench.ts';
import type { Violation } from '../faults/ledger/check-ledger.ts';
import type { Ending } from '../faults/ledger/history.ts';
import { LedgerHttpProcess } from '../faults/ledger/ledger-process.ts';
import { Crowd } from './crowd.ts';
import { Seeded } from './seeded.ts';

export interface ChaosOptions {
  readonly seed: number;
  readonly durationMs: number;
  readonly clients: number;
  /** Mean time between two misfortunes. */
  readonly everyMs: number;
  /** Also stops the gateway itself, with SIGTERM or kill -9, and starts it again on its state. */
  readonly restarts: boolean;
  readonly say?: (text: string) => void;
}

export interface ChaosResult {
  readonly violations: readonly Violation[];
  readonly endings: Record<Ending, number>;
  /** How often each misfortune happened. */
  readonly misfortunes: Record<string, number>;
  /** Servers of which no client got a result once everything was left in peace. */
  readonly dead: readonly string[];
  /** Everything that was tried and done, for a run that failed. */
  readonly history: object;
}

const TIMEOUT_MS = 4_000;
const LEDGERS = ['shared', 'own', 'old', 'modern'] as const;
const REPEATABLE = new Set(['safe', 'safe_slow']);

/**
 * A gateway in front of four kinds of servers, with a crowd of clients, while seeded misfortune strikes: servers are
 * killed, sessions come and go, readers stall, the configuration is rewritten, also wrongly. In the end the ledger
 * decides.
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
  readonly #random: Seeded;
  readonly #bench = new FaultBench(null);
  readonly #crowd: Crowd;
  readonly #remote = new Map<'old' | 'modern', LedgerHttpProcess>();
  readonly #misfortunes: Record<string, number> = {};
  #servers: Servers = {};
  #acknowledged: string[] = [];
  #added = 0;

  constructor(options: ChaosOptions) {
    this.#options = options;
    this.#random = new Seeded(options.seed);
    this.#crowd = new Crowd(this.#bench, new Seeded(options.seed + 1), ['shared', 'own', 'old', 'modern']);
  }

  async run(): Promise<ChaosResult> {
    const { durationMs, everyMs, clients, say } = this.#options;
    for (const [name, era] of [
      ['old', 'stateful'],
      ['modern', 'stateless'],
    ] as const) {
      this.#remote.set(name, await LedgerHttpProcess.start(this.#bench.ledger(name), era));
    }
    const common = { timeoutMs: TIMEOUT_MS };
    this.#servers = {
      shared: this.#bench.stdio('shared', 'stateful', {
        isolation: 'shared',
        retry: 'hints',
        trusted: true,
        ...common,
      }),
      own: this.#bench.stdio('own', 'stateful', { ...common, limits: { maxProcesses: 64 } }),
      old: { type: 'http', url: this.#remote.get('old')!.url, ...common },
      modern: { type: 'http', url: this.#remote.get('modern')!.url, ...common },
    };
    await this.#start();
    this.#crowd.begin(clients);
    const end = performance.now() + durationMs;
    let told = performance.now();
    while (performance.now() < end) {
      await sleep(everyMs * (0.5 + this.#random.unit()));
      await this.#strike();
      if (performance.now() - told < 30_000) continue;
      told = performance.now();
      say?.(JSON.stringify(this.#bench.history.endings()));
    }
    await this.#crowd.stop();
    const dead = await this.#peace();
    const present = (await this.#statuses()).map(({ name }) => name);
    const evidence = { repeatable: REPEATABLE, deadlineMs: TIMEOUT_MS, acknowledged: this.#acknowledged, present };
    return {
      violations: this.#bench.violations(LEDGERS, evidence),
      endings: this.#bench.history.endings(),
      misfortunes: this.#misfortunes,
      dead,
      history: { seed: this.#options.seed, attempts: this.#bench.history.attempts, log: this.#bench.gateway.stderr },
    };
  }

  async dispose(): Promise<void> {
    await this.#crowd.stop();
    for (const remote of this.#remote.values()) await remote.kill();
    await this.#bench.dispose();
  }

  async #start(): Promise<void> {
    await this.#bench.start(this.#servers, { sessions: { idleMs: 30_000 }, log: { level: 'info' } });
  }

  async #strike(): Promise<void> {
    const { restarts } = this.#options;
    const kinds = [
      'kill',
      'kill',
      'kill',
      'kill_remote',
      'stall',
      'abandon',
      'add',
      'remove',
      'edit',
      'spoil',
    ] as const;
    const kind = restarts && this.#random.below(20) === 0 ? 'restart' : this.#random.pick(kinds);
    this.#misfortunes[kind] = (this.#misfortunes[kind] ?? 0) + 1;
    switch (kind) {
      case 'kill':
        return this.#kill(this.#random.pick(['shared', 'own']));
      case 'kill_remote':
        return this.#killRemote(this.#random.pick(['old', 'modern']));
      case 'stall':
        return this.#crowd.stall();
      case 'abandon':
        return this.#crowd.abandonSessions(10);
      case 'add':
        return this.#add();
      case 'remove':
        return this.#remove();
      case 'edit':
        return this.#edit();
      case 'spoil':
        writeFileSync(join(this.#bench.gateway.folder, 'trunkline.json'), '{"mcpServers": {"shared": {"comm');
        return;
      case 'restart':
        await this.#bench.gateway.stop(this.#random.below(2) === 0 ? 'SIGTERM' : 'SIGKILL');
        return this.#start();
    }
  }

  async #kill(name: string): Promise<void> {
    const pids = await this.#bench.pids(name);
    if (pids.length === 0) return;
    try {
      process.kill(-this.#random.pick(pids), 'SIGKILL');
    } catch {
      // It was faster.
    }
  }

  async #killRemote(name: 'old' | 'modern'): Promise<void> {
    const before = this.#remote.get(name)!;
    await before.kill();
    await sleep(this.#random.below(300));
    const era = name === 'old' ? 'stateful' : 'stateless';
    this.#remote.set(name, await LedgerHttpProcess.start(this.#bench.ledger(name), era, before.port));
  }

  /** A write counts as acknowledged when the gateway shows it. */
  async #add(): Promise<void> {
    const name = `added${++this.#added}`;
    this.#servers = { ...this.#servers, [name]: this.#bench.stdio('added', 'stateful', { start: 'lazy' }) };
    this.#rewrite();
    await until(`${name} is known`, async () => (await this.#statuses()).some((status) => status.name === name));
    this.#acknowledged.push(name);
  }

  async #remove(): Promise<void> {
    const name = this.#acknowledged.shift();
    if (name === undefined) return;
    const { [name]: _, ...rest } = this.#servers;
    this.#servers = rest;
    this.#rewrite();
    await until(`${name} is gone`, async () => !(await this.#statuses()).some((status) => status.name === name));
  }

  /** A change that needs a new connection: the process of one server is replaced under its callers. */
  async #edit(): Promise<void> {
    const shared = this.#servers['shared'] as { env: Record<string, string> };
    const env = { ...shared.env, EDIT: String(this.#random.below(1_000_000)) };
    this.#servers = { ...this.#servers, shared: { ...shared, env } };
    this.#rewrite();
    await sleep(200);
  }

  #rewrite(): void {
    this.#bench.gateway.rewrite({
      sessions: { idleMs: 30_000 },
      log: { level: 'info' },
      mcpServers: this.#servers,
    });
  }

  async #statuses(): Promise<{ name: string }[]> {
    return (await this.#bench.gateway.control<{ servers: { name: string }[] }>('/api/v1/servers')).servers;
  }

  /** With the misfortunes over, every server has to serve again; a restart spares the waits of S3.1. */
  async #peace(): Promise<string[]> {
    this.#rewrite();
    const dead: string[] = [];
    for (const name of LEDGERS) {
      const serves = async (): Promise<boolean> => (await this.#crowd.probe(name)) === 'RESULT';
      if (await serves()) continue;
      await this.#bench.gateway.control(`/api/v1/servers/${name}/restart`, 'POST');
      if (!(await serves()) && !(await serves())) dead.push(name);
    }
    return dead;
  }
}
