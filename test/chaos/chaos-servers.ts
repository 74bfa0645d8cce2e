import { setTimeout as sleep } from 'node:timers/promises';
import type { FaultBench, Servers } from '../faults/fault-bench.ts';
import { LedgerHttpProcess } from '../faults/ledger/ledger-process.ts';
import { MARK } from '../support/processes.ts';
import { type NpmServer, npmServers } from './npm-servers.ts';

/** Servers that keep a ledger: on pipes, and behind URLs. */
export const PIPES = ['shared', 'own', 'quiet', 'modern_pipe'] as const;
export const REMOTES = ['old', 'modern'] as const;
export const LEDGERS = [...PIPES, ...REMOTES];
export type Remote = (typeof REMOTES)[number];

const ERAS = { old: 'stateful', modern: 'stateless' } as const;

/** The ten servers of a chaos run: six that keep a ledger, of both eras, and four as they are published on npm. */
export class ChaosServers {
  readonly npm: readonly NpmServer[];
  readonly #bench: FaultBench;
  readonly #remotes = new Map<Remote, LedgerHttpProcess>();

  constructor(bench: FaultBench) {
    this.#bench = bench;
    this.npm = npmServers(bench.folder, { [MARK]: bench.mark });
  }

  get names(): string[] {
    return [...LEDGERS, ...this.npm.map(({ name }) => name)];
  }

  async start(timeoutMs: number): Promise<Servers> {
    for (const name of REMOTES) {
      this.#remotes.set(name, await LedgerHttpProcess.start(this.#bench.ledger(name), ERAS[name]));
    }
    const common = { timeoutMs };
    const repeatable = { retry: 'hints', trusted: true };
    return {
      shared: this.#bench.stdio('shared', 'stateful', { isolation: 'shared', ...repeatable, ...common }),
      own: this.#bench.stdio('own', 'stateful', { ...common, limits: { maxProcesses: 64 } }),
      quiet: this.#bench.stdio('quiet', 'stateful', { isolation: 'shared', ...common }),
      modern_pipe: this.#bench.stdio('modern_pipe', 'stateless', { ...repeatable, ...common }),
      old: { type: 'http', url: this.#remotes.get('old')!.url, ...common },
      modern: { type: 'http', url: this.#remotes.get('modern')!.url, ...common },
      ...Object.fromEntries(this.npm.map(({ name, definition }) => [name, { ...definition, ...common }])),
    };
  }

  /** Kills a server behind a URL, and starts it again on its port. */
  async replace(name: Remote, afterMs: number): Promise<void> {
    const before = this.#remotes.get(name)!;
    await before.kill();
    await sleep(afterMs);
    this.#remotes.set(name, await LedgerHttpProcess.start(this.#bench.ledger(name), ERAS[name], before.port));
  }

  remote(name: Remote): LedgerHttpProcess {
    return this.#remotes.get(name)!;
  }

  async kill(): Promise<void> {
    for (const remote of this.#remotes.values()) await remote.kill();
  }
}
