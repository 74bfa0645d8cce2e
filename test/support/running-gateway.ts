import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { environmentOf } from './run-trunkline.ts';

/** Long enough for a loaded machine; a gateway that is not ready by then has failed. */
const START_MS = 60_000;
const BIN = resolve(import.meta.dirname, '../../bin/trunkline.js');
/** A gateway of the built package can run on another Node than its test. */
const NODE = process.env['TRUNKLINE_TEST_NODE'] ?? process.execPath;

export interface GatewayOptions {
  /** Content of the configuration file; written as JSON. */
  readonly config: object;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** A command and its arguments that start the gateway in their place, as `prlimit` does. */
  readonly under?: readonly string[];
  /** A folder of an earlier gateway, to start on its state and its file. */
  readonly folder?: string;
  /** The program of another version; see other-version.ts. */
  readonly program?: string;
}

/**
 * A gateway as a process of its own, as a user starts it, in a temporary folder that holds configuration and state.
 * `stop` shuts it down in order, `kill` ends it as a power cut would; `dispose` also removes the folder.
 */
export class RunningGateway {
  readonly folder: string;
  readonly process: ChildProcess;
  mcpUrl = '';
  controlUrl = '';
  readyMs = 0;
  stderr = '';
  readonly exited: Promise<number | null>;

  private constructor(folder: string, child: ChildProcess) {
    this.folder = folder;
    this.process = child;
    this.exited = new Promise((done) => child.once('exit', (code) => done(code)));
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr = (this.stderr + text).slice(-200_000);
    });
  }

  /** A token of the control API. */
  token(which: 'control' | 'exec'): string {
    return readFileSync(join(this.folder, 'data', `${which}.token`), 'utf8').trim();
  }

  static async start(options: GatewayOptions): Promise<RunningGateway> {
    const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'trunkline-e2e-'));
    const file = join(folder, 'trunkline.json');
    writeFileSync(file, JSON.stringify(options.config));
    const args = [
      options.program ?? BIN,
      '--json',
      '--port',
      '0',
      '--control-port',
      '0',
      '--data-dir',
      join(folder, 'data'),
      ...(options.args ?? []),
      file,
    ];
    const [command, ...rest] = [...(options.under ?? []), NODE, ...args];
    const child = spawn(command!, rest, {
      cwd: folder,
      env: environmentOf(options.env),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const gateway = new RunningGateway(folder, child);
    try {
      const facts = JSON.parse(await firstLine(child)) as { mcpUrl: string; controlUrl: string; readyMs: number };
      gateway.mcpUrl = facts.mcpUrl;
      gateway.controlUrl = facts.controlUrl;
      gateway.readyMs = facts.readyMs;
      return gateway;
    } catch (error) {
      await gateway.exited;
      throw new Error(`the gateway did not start:\n${gateway.stderr}`, { cause: error });
    }
  }

  serverUrl(name: string): string {
    return this.mcpUrl.replace(/\/mcp$/, `/servers/${name}/mcp`);
  }

  rewrite(config: object): void {
    writeFileSync(join(this.folder, 'trunkline.json'), JSON.stringify(config));
  }

  /** Calls the control API with the gateway's own token; resolves with the parsed answer. */
  async control<T>(path: string, method = 'GET', body?: string): Promise<T> {
    const token = this.token('control');
    const headers = {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    };
    const response = await fetch(new URL(path, this.controlUrl), {
      method,
      headers,
      ...(body === undefined ? {} : { body }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  /** What `/metrics` shows. */
  async metrics(): Promise<string> {
    const token = this.token('control');
    const response = await fetch(new URL('/metrics', this.controlUrl), {
      headers: { authorization: `Bearer ${token}` },
    });
    return response.text();
  }

  /** Waits until all (or the named) servers are ready, for at most half a minute. */
  ready(...names: readonly string[]): Promise<void> {
    return this.readyWithin(30_000, ...names);
  }

  async readyWithin(atMostMs: number, ...names: readonly string[]): Promise<void> {
    const end = performance.now() + atMostMs;
    for (;;) {
      const { servers } = await this.control<{
        servers: { name: string; state: string; startedInMs: number | null }[];
      }>('/api/v1/servers');
      const waiting = servers.filter(
        (server) =>
          (names.length === 0 || names.includes(server.name)) &&
          (server.startedInMs === null || !/running|connected/.test(server.state)),
      );
      if (waiting.length === 0) return;
      if (performance.now() > end)
        throw new Error(`not ready: ${JSON.stringify(waiting)}\n${this.stderr.slice(-4000)}`);
      await new Promise((done) => setTimeout(done, 25));
    }
  }

  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.kill(signal);
    return this.exited;
  }

  async dispose(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((done, fail) => {
    let text = '';
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      fail(new Error(`said nothing within ${START_MS} ms`));
    }, START_MS);
    child.once('exit', (code) => {
      clearTimeout(timer);
      fail(new Error(`exited with ${code}`));
    });
    child.stdout!.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
      const end = text.indexOf('\n');
      if (end < 0) return;
      clearTimeout(timer);
      done(text.slice(0, end));
    });
  });
}
