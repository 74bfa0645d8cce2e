import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { freePort } from './free-port.ts';

const VERSIONS = '/usr/lib/postgresql';

/** A real PostgreSQL of the test's own, on a private port of loopback, with its data in a folder of its own. */
export class PostgresServer implements AsyncDisposable {
  readonly port: number;
  readonly #folder: string;
  #process: ChildProcess | null = null;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.port = port;
  }

  static async start(): Promise<PostgresServer> {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-postgres-'));
    chmodSync(folder, 0o755);
    // PostgreSQL refuses to run as root, so root runs it as the user of its package.
    if (process.getuid!() === 0) execFileSync('chown', ['postgres', folder]);
    const server = new PostgresServer(folder, await freePort());
    const initdb = ['-D', server.#data, '-A', 'trust', '-U', 'trunkline', '-E', 'UTF8', '--locale=C', '--no-sync'];
    const [command, ...args] = asPostgres(program('initdb'), initdb);
    execFileSync(command!, args, { stdio: 'pipe', cwd: '/' });
    await server.run();
    return server;
  }

  get url(): string {
    return this.urlAt(this.port);
  }

  /** The URL of the same database on another port, that of a proxy. */
  urlAt(port: number): string {
    return `postgresql://trunkline@127.0.0.1:${port}/postgres`;
  }

  /** Starts it, for the first time or again. Rejects when it ends instead. */
  async run(): Promise<void> {
    const settings = [`port=${this.port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off'];
    const [command, ...args] = asPostgres(program('postgres'), [
      '-D',
      this.#data,
      ...settings.flatMap((setting) => ['-c', setting]),
    ]);
    const child = spawn(command!, args, { stdio: ['ignore', 'ignore', 'pipe'], cwd: '/' });
    this.#process = child;
    let said = '';
    for await (const line of createInterface(child.stderr!)) {
      said += `${line}\n`;
      if (line.includes('ready to accept connections')) {
        child.stderr!.resume();
        return;
      }
    }
    throw new Error(`PostgreSQL did not start: ${said}`);
  }

  /** Cuts all connections, as in a crash; committed data is there when it runs again. */
  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGQUIT');
    await exit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #data(): string {
    return join(this.#folder, 'data');
  }
}

/** Debian keeps the programs out of PATH, in one folder for each version. */
function program(name: string): string {
  if (!existsSync(VERSIONS)) return name;
  const newest = readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a))[0]!;
  return join(VERSIONS, newest, 'bin', name);
}

function asPostgres(command: string, args: readonly string[]): readonly string[] {
  const user = ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups', '--'];
  return process.getuid!() === 0 ? [...user, command, ...args] : [command, ...args];
}
