import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type FaultBench, type Servers, until } from '../faults/fault-bench.ts';
import { type ChaosServers, PIPES, REMOTES } from './chaos-servers.ts';
import type { Crowd } from './crowd.ts';
import type { Seeded } from './seeded.ts';

const KINDS = [
  'kill',
  'kill',
  'kill',
  'kill_remote',
  'stop',
  'stop',
  'hang',
  'flood',
  'stall',
  'abandon',
  'add',
  'remove',
  'edit',
  'spoil',
] as const;

/** Settings under which sessions expire soon, so that the run shows that their resources are freed. */
export const SETTINGS = { sessions: { idleMs: 10_000 }, log: { level: 'info' } };

/** The faults of a chaos run, chosen by a seed. */
export class Misfortunes {
  /** How often each fault happened. */
  readonly counts: Record<string, number> = {};
  /** Names of configuration writes that the gateway had acknowledged and lost, and that the run had not reverted. */
  readonly missing: string[] = [];
  /** Acknowledged writes that the run has not reverted. */
  readonly #acknowledged: string[] = [];
  readonly #bench: FaultBench;
  readonly #random: Seeded;
  readonly #crowd: Crowd;
  readonly #ten: ChaosServers;
  /** Faults that continue after `strike`. */
  readonly #lasting = new Set<Promise<void>>();
  #servers: Servers;
  #added = 0;

  constructor(bench: FaultBench, random: Seeded, crowd: Crowd, ten: ChaosServers, servers: Servers) {
    this.#bench = bench;
    this.#random = random;
    this.#crowd = crowd;
    this.#ten = ten;
    this.#servers = servers;
  }

  /** The servers of the file, when the file is valid. */
  get servers(): Servers {
    return this.#servers;
  }

  count(kind: string): void {
    this.counts[kind] = (this.counts[kind] ?? 0) + 1;
  }

  async strike(): Promise<void> {
    const kind = this.#random.pick(KINDS);
    this.count(kind);
    switch (kind) {
      case 'kill':
        return this.#signal(await this.#anyPid(), 'SIGKILL');
      case 'kill_remote':
        return this.#ten.replace(this.#random.pick(REMOTES), this.#random.below(300));
      case 'stop':
        return this.#stop();
      case 'hang':
        return this.#last(this.#crowd.burst(`${this.#random.pick(PIPES)}__hang`, {}, 1 + this.#random.below(5)));
      case 'flood':
        return this.#flood();
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
    }
  }

  /** Waits for the faults that continue, writes a valid file, and removes the servers that were added. */
  async end(): Promise<void> {
    await Promise.all(this.#lasting);
    this.rewrite();
    const present = await this.present();
    this.missing.push(...this.#acknowledged.filter((name) => !present.includes(name)));
    while (this.#acknowledged.length > 0) await this.#remove();
  }

  rewrite(): void {
    this.#bench.gateway.rewrite({ ...SETTINGS, mcpServers: this.#servers });
  }

  #last(task: Promise<void>): void {
    const settled = task.finally(() => this.#lasting.delete(settled));
    this.#lasting.add(settled);
  }

  /** One process of a server on pipes, those from npm included. */
  async #anyPid(): Promise<number | null> {
    const names = [...PIPES, ...this.#ten.npm.map(({ name }) => name)];
    const pids = await this.#bench.pids(this.#random.pick(names));
    return pids.length === 0 ? null : this.#random.pick(pids);
  }

  #signal(pid: number | null, signal: NodeJS.Signals): void {
    try {
      if (pid !== null) process.kill(-pid, signal);
    } catch {
      // The process has already ended.
    }
  }

  /** Stops a process for less than a call's deadline, or for longer. */
  async #stop(): Promise<void> {
    const ms = this.#random.below(8_000);
    if (this.#random.below(5) === 0) {
      const remote = this.#ten.remote(this.#random.pick(REMOTES));
      remote.signal('SIGSTOP');
      this.#last(sleep(ms).then(() => remote.signal('SIGCONT')));
      return;
    }
    const pid = await this.#anyPid();
    this.#signal(pid, 'SIGSTOP');
    this.#last(sleep(ms).then(() => this.#signal(pid, 'SIGCONT')));
  }

  #flood(): void {
    const server = this.#random.pick(PIPES);
    const [tool, args] = this.#random.pick([
      ['flood', { mib: 80 }],
      ['announce', { times: 20_000 }],
      ['complain', { text: 'x'.repeat(500), times: 20_000 }],
      ['say', { text: 'not a message\n'.repeat(20_000) }],
    ] as const);
    this.#last(this.#crowd.burst(`${server}__${tool}`, args, 1));
  }

  /** A write counts as acknowledged when the gateway shows it. */
  async #add(): Promise<void> {
    const name = `added${++this.#added}`;
    this.#servers = { ...this.#servers, [name]: this.#bench.stdio('added', 'stateful', { start: 'lazy' }) };
    this.rewrite();
    await until(`${name} is known`, async () => (await this.present()).includes(name), 60_000);
    this.#acknowledged.push(name);
  }

  async #remove(): Promise<void> {
    const name = this.#acknowledged.shift();
    if (name === undefined) return;
    const { [name]: _, ...rest } = this.#servers;
    this.#servers = rest;
    this.rewrite();
    await until(`${name} is gone`, async () => !(await this.present()).includes(name), 60_000);
  }

  /** A change that needs a new connection: the process of one server is replaced under its callers. */
  async #edit(): Promise<void> {
    const shared = this.#servers['shared'] as { env: Record<string, string> };
    const env = { ...shared.env, EDIT: String(this.#random.below(1_000_000)) };
    this.#servers = { ...this.#servers, shared: { ...shared, env } };
    this.rewrite();
    await sleep(200);
  }

  /** The servers that the gateway knows. */
  async present(): Promise<string[]> {
    const { servers } = await this.#bench.gateway.control<{ servers: { name: string }[] }>('/api/v1/servers');
    return servers.map(({ name }) => name);
  }
}
