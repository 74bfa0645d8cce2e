import { type ChildProcess, spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { freePort } from './free-port.ts';
import { goPrograms, pipInstalled } from './made-once.ts';

const SOURCES = resolve(import.meta.dirname, '../servers');

/** A server over stdio, as a definition names it; over HTTP at the address or port that is its last argument. */
export interface SdkServer {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Path of a program of test/servers/go, built once with Go; the reason if it cannot be built here. */
export async function goProgram(
  name: 'official' | 'mark3labs' | 'client',
): Promise<string | { readonly missing: string }> {
  try {
    return join(await goPrograms('go-servers', join(SOURCES, 'go')), name);
  } catch (error) {
    return { missing: `the servers in test/servers/go could not be built here: ${String(error).slice(0, 300)}` };
  }
}

/** A server of test/servers/python with that release of the package mcp, installed once; the reason if that fails. */
export async function pythonServer(
  file: string,
  release: string,
  args: readonly string[] = [],
): Promise<SdkServer | { readonly missing: string }> {
  try {
    const env = { PYTHONPATH: await pipInstalled(`mcp==${release}`) };
    return { command: 'python3', args: [join(SOURCES, 'python', file), ...args], env };
  } catch (error) {
    return { missing: `mcp ${release} could not be installed for Python here: ${String(error).slice(0, 300)}` };
  }
}

/** Such a server over HTTP, as a process of the test's own. */
export class HttpSdkServer implements AsyncDisposable {
  readonly url: string;
  readonly #process: ChildProcess;

  private constructor(url: string, process: ChildProcess) {
    this.url = url;
    this.#process = process;
  }

  static async start({ command, args, env }: SdkServer, path: string): Promise<HttpSdkServer> {
    const port = await freePort();
    const address = command === 'python3' ? String(port) : `127.0.0.1:${port}`;
    const process_ = spawn(command, [...args, address], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const server = new HttpSdkServer(`http://127.0.0.1:${port}${path}`, process_);
    for (let i = 0; i < 600; i++) {
      if (process_.exitCode !== null) throw new Error(`${command} ended with ${process_.exitCode}`);
      const there = await fetch(server.url, { method: 'DELETE' }).then(
        () => true,
        () => false,
      );
      if (there) return server;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`${command} does not listen`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode !== null) return;
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.kill('SIGKILL');
    await ended;
  }
}

/** Such a server over stdio without a gateway before it: `say` writes a line and resolves with the line that has its id. */
export class BareSdkServer implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #waiting = new Map<number, (line: string) => void>();

  constructor({ command, args, env }: SdkServer) {
    this.#process = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: this.#process.stdout! }).on('line', (line) => {
      const { id, method } = JSON.parse(line);
      if (method === undefined) this.#waiting.get(id)?.(line);
    });
  }

  say(id: number, line: string): Promise<string> {
    const answer = new Promise<string>((resolve) => this.#waiting.set(id, resolve));
    this.tell(line);
    return answer;
  }

  tell(line: string): void {
    this.#process.stdin!.write(`${line}\n`);
  }

  /** Speaks the stateful era from now on. */
  async initialize(): Promise<void> {
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bare', version: '1' } };
    await this.say(1, JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }));
    this.tell('{"jsonrpc":"2.0","method":"notifications/initialized"}');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.kill('SIGKILL');
    await ended;
  }
}
