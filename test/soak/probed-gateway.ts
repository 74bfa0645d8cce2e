import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { FaultBench, type Servers, until } from '../faults/fault-bench.ts';
import type { Probed } from './probe.ts';

const PROBE = join(import.meta.dirname, 'probe.ts');

/** A gateway process with a memory probe, in front of ledger servers. */
export class ProbedGateway {
  readonly bench = new FaultBench(null);

  async start(servers: Servers, settings: Record<string, unknown> = {}): Promise<void> {
    await this.launch(servers, settings);
    await this.bench.gateway.ready();
  }

  /** Does not wait for the servers. */
  async launch(
    servers: Servers,
    settings: Record<string, unknown> = {},
    more: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const options = `--import=${PROBE} ${more['NODE_OPTIONS'] ?? ''}`;
    const env = { ...more, NODE_OPTIONS: options, PROBE_FILE: this.#file };
    await this.bench.start(servers, settings, env);
  }

  get url(): URL {
    return new URL(this.bench.gateway.mcpUrl);
  }

  get pid(): number {
    return this.bench.gateway.process.pid!;
  }

  /** After a garbage collection. */
  async probe(): Promise<Probed> {
    rmSync(this.#file, { force: true });
    process.kill(this.pid, 'SIGUSR2');
    await until('the probe', () => existsSync(this.#file), 60_000);
    return JSON.parse(readFileSync(this.#file, 'utf8')) as Probed;
  }

  rssBytes(): number {
    const status = readFileSync(`/proc/${this.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024;
  }

  /** Connections that clients have open to it. */
  connections(): number {
    const port = Number(this.url.port).toString(16).toUpperCase().padStart(4, '0');
    const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n');
    return lines.filter((line) => new RegExp(`^ *\\d+: [0-9A-F]{8}:${port} \\S+ 01 `).test(line)).length;
  }

  get #file(): string {
    return join(this.bench.folder, 'probe.json');
  }
}
