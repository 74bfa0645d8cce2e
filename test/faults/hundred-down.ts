import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { Blackhole } from './blackhole.ts';
import type { Servers } from './fault-bench.ts';

/** The ways in which the servers are down; there are a hundred in all. */
export const WAYS_DOWN = ['missing', 'exits', 'refused', 'blackholed', 'nameless', 'unresolved'] as const;
export type WayDown = (typeof WAYS_DOWN)[number];

const COUNTS: Readonly<Record<WayDown, number>> = {
  missing: 20,
  exits: 20,
  refused: 20,
  blackholed: 20,
  nameless: 10,
  unresolved: 10,
};

const STUB_NAMES = resolve(import.meta.dirname, 'stub-names.ts');

/** A hundred servers, each unavailable in one of six ways. */
export class HundredDown {
  readonly #blackhole: Blackhole;
  readonly #refused: number;
  readonly #names: string;

  private constructor(blackhole: Blackhole, refused: number, names: string) {
    this.#blackhole = blackhole;
    this.#refused = refused;
    this.#names = names;
  }

  static async open(folder: string): Promise<HundredDown> {
    const names = join(folder, 'names.json');
    // Names under `.test` do not exist, except these, whose name server does not answer.
    const silent = Array.from({ length: COUNTS.unresolved }, (_, i) => [`unresolved-${i}.test`, null]);
    writeFileSync(names, JSON.stringify(Object.fromEntries(silent)));
    return new HundredDown(await Blackhole.open(), await freePort(), names);
  }

  /** For the gateway's environment: replaces the name resolution of the system. */
  get env(): Record<string, string> {
    return { NODE_OPTIONS: `--import=${STUB_NAMES}`, STUB_NAMES: this.#names };
  }

  get servers(): Servers {
    const all: Servers = {};
    for (const way of WAYS_DOWN) {
      for (let i = 0; i < COUNTS[way]; i++) all[`${way}-${i}`] = this.#server(way, i);
    }
    return all;
  }

  close(): void {
    this.#blackhole.close();
  }

  #server(way: WayDown, i: number): Record<string, unknown> {
    const http = (authority: string) => ({ type: 'http', url: `http://${authority}/mcp` });
    switch (way) {
      case 'missing':
        return { command: `/no/such/command-${i}` };
      case 'exits':
        return { command: 'sh', args: ['-c', 'echo it has no licence >&2; exit 1'] };
      case 'refused':
        return http(`127.0.0.1:${this.#refused}`);
      case 'blackholed':
        return http(`127.0.0.1:${this.#blackhole.port}`);
      default:
        return http(`${way}-${i}.test:80`);
    }
  }
}

/** A port without a listener. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}
