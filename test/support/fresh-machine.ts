import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, realpathSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { madeOnce } from './made-once.ts';
import { runProgram } from './run-program.ts';

const INSTALL_MS = 240_000;
/** The variables with which this machine reaches the registry. */
const KEPT = /^(https?_proxy|no_proxy|ssl_cert_\w+|node_extra_ca_certs)$/i;

/** The program of that version of Node, from npm; kept for later tests. Rejects where npm does not give it. */
export async function nodeOf(version: string): Promise<string> {
  const name = `node-${process.platform}-${process.arch}`;
  const folder = await madeOnce(`node-${version}`, async (scratch) => {
    const install = ['npm', 'install', '--no-audit', '--no-fund', '--prefix', scratch, `${name}@${version}`] as const;
    const { code, err } = await runProgram(install, { cwd: scratch, atMostMs: INSTALL_MS });
    if (code !== 0) throw new Error(`Node ${version}: ${err}`);
  });
  return join(folder, 'node_modules', name, 'bin/node');
}

/**
 * The environment of a machine that has this Node, npm and a shell, and nothing else: an empty home, nothing in npm's cache, no
 * variable of ours.
 */
export function freshMachine(home: string, node: string): Readonly<Record<string, string>> {
  const bin = join(home, '.bin');
  mkdirSync(bin, { recursive: true });
  const npm = realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim());
  symlinkSync(node, join(bin, 'node'));
  symlinkSync(npm, join(bin, 'npm'));
  symlinkSync(join(npm, '../npx-cli.js'), join(bin, 'npx'));
  symlinkSync('/bin/sh', join(bin, 'sh'));
  const kept = Object.entries(process.env).filter(([name]) => KEPT.test(name)) as [string, string][];
  const registry = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim();
  return { ...Object.fromEntries(kept), HOME: home, PATH: bin, npm_config_registry: registry };
}

/** A gateway that a command started, and which ends with everything that the command started. */
export class StartedGateway implements AsyncDisposable {
  readonly mcpUrl: string;
  readonly #command: ChildProcess;

  private constructor(mcpUrl: string, command: ChildProcess) {
    this.mcpUrl = mcpUrl;
    this.#command = command;
  }

  /** Resolves once the gateway listens. The command has to hand `--json` on to it. */
  static async start(
    [command, ...args]: readonly [string, ...string[]],
    options: {
      readonly cwd: string;
      readonly env: Readonly<Record<string, string>>;
      readonly uid?: number;
      readonly gid?: number;
    },
  ): Promise<StartedGateway> {
    const child = spawn(command, args, { ...options, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let err = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      err += text;
    });
    for await (const line of createInterface({ input: child.stdout })) {
      const { mcpUrl } = JSON.parse(line) as { readonly mcpUrl: string };
      return new StartedGateway(mcpUrl, child);
    }
    throw new Error(`${command} ${args.join(' ')}: ${err}`);
  }

  /** Signals all processes, as Ctrl-C in a terminal does: npx passes no signal on. */
  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#command, 'close');
    this.#command.stdout!.resume();
    process.kill(-this.#command.pid!, 'SIGINT');
    await ended;
  }
}
