import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import type { Era } from '../../../src/model/message.ts';
import { MARK } from '../processes.ts';
import { folderOf, type Published } from './published.ts';
import { uvFolder } from './uv.ts';

const RUNNERS = ['npx', 'uvx'] as const;

interface Definition {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface Asked {
  readonly eras: Readonly<Record<string, Era>>;
  /** Exposed names. */
  readonly tools: readonly string[];
}

/**
 * Published servers with `npx` and `uvx` whose caches are empty. Both write down what they start, and each process has
 * `mark` in its environment.
 */
export class RealServers {
  readonly folder = mkdtempSync(join(tmpdir(), 'trunkline-real-'));
  readonly mcpServers: Readonly<Record<string, Definition>>;
  /** For the gateway. */
  readonly env: Readonly<Record<string, string>>;
  readonly #bin: string;

  /** Resolves with the reason if a program is missing. */
  static async prepare(published: readonly Published[], mark: string): Promise<RealServers | string> {
    const uv = await uvFolder();
    if (uv === null) return 'uv could not be installed from PyPI';
    const path = `${uv}${delimiter}${process.env['PATH']}`;
    const real = RUNNERS.map((runner) => whereIs(runner, path));
    const missing = RUNNERS.filter((_, i) => real[i] === null);
    if (missing.length > 0) return `${missing.join(', ')} not found`;
    return new RealServers(published, mark, path, real as string[]);
  }

  private constructor(published: readonly Published[], mark: string, path: string, real: readonly string[]) {
    const home = join(this.folder, 'home');
    this.#bin = join(this.folder, 'bin');
    for (const folder of [home, this.#bin]) mkdirSync(folder);
    RUNNERS.forEach((runner, i) => {
      const file = join(this.#bin, runner);
      writeFileSync(file, `#!/bin/sh\necho "$STARTED_AS" >>"${this.#starts}"\nexec "${real[i]}" "$@"\n`);
      chmodSync(file, 0o755);
    });
    this.env = {
      PATH: `${this.#bin}${delimiter}${path}`,
      HOME: home,
      npm_config_cache: join(this.folder, 'npm'),
      UV_CACHE_DIR: join(this.folder, 'uv'),
      // Python itself is not on PyPI.
      UV_PYTHON_DOWNLOADS: 'never',
    };
    this.mcpServers = Object.fromEntries(
      published.map((server) => {
        const own = folderOf(server, this.folder);
        const env = { [MARK]: mark, STARTED_AS: server.name, ...server.env?.(own) };
        return [server.name, { command: server.runs, args: server.args(own), env }];
      }),
    );
  }

  /** How often each server was started so far. */
  starts(): Record<string, number> {
    const counts: Record<string, number> = Object.fromEntries(Object.keys(this.mcpServers).map((name) => [name, 0]));
    const text = existsSync(this.#starts) ? readFileSync(this.#starts, 'utf8') : '';
    for (const name of text.split('\n')) if (counts[name] !== undefined) counts[name]++;
    return counts;
  }

  /** Era and tools of each server without a gateway, for a client without capabilities. */
  async asked(): Promise<Asked> {
    const eras: Record<string, Era> = {};
    const tools: string[] = [];
    const left = Object.entries(this.mcpServers);
    const ask = async (): Promise<void> => {
      for (let next = left.pop(); next !== undefined; next = left.pop()) {
        const [name, { command, args, env }] = next;
        const client = new Client({ name: 'direct', version: '1' }, { versionNegotiation: { mode: 'auto' } });
        const environment = { ...(process.env as Record<string, string>), ...this.env, ...env, STARTED_AS: 'direct' };
        await client.connect(
          new StdioClientTransport({ command, args: [...args], env: environment, stderr: 'ignore', cwd: this.folder }),
        );
        const listed = await client.listTools();
        eras[name] = client.getNegotiatedProtocolVersion() === '2026-07-28' ? 'stateless' : 'stateful';
        tools.push(...listed.tools.map((tool) => `${name}__${tool.name}`));
        await client.close();
      }
    };
    await Promise.all([ask(), ask()]);
    return { eras, tools };
  }

  dispose(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  get #starts(): string {
    return join(this.folder, 'starts');
  }
}

function whereIs(program: string, path: string): string | null {
  const files = path.split(delimiter).map((folder) => join(folder, program));
  return files.find((file) => existsSync(file)) ?? null;
}
