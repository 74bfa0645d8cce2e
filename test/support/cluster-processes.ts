import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { NatsServer } from './nats-server.ts';

const PROGRAM = resolve(import.meta.dirname, '../cluster/node-program.ts');
const COUNTER = resolve(import.meta.dirname, '../fixtures/cluster/counter.mjs');
/** Long enough for a loaded machine. */
const WAIT_MS = 30_000;

/** The definition of the fixture that counts and says who it is. */
export function counterServer(more: object = {}): object {
  return { command: process.execPath, args: [COUNTER], ...more };
}

/** One node as a process. */
export class NodeProcess {
  readonly name: string;
  readonly process: ChildProcess;
  readonly exited: Promise<number | null>;
  stderr = '';
  mcpUrl = '';
  controlUrl = '';
  #token = '';

  constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.process = child;
    this.exited = new Promise((done) => child.once('exit', (code) => done(code)));
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr = (this.stderr + text).slice(-200_000);
    });
  }

  async started(): Promise<void> {
    let text = '';
    this.process.stdout!.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    await until(() => {
      if (this.process.exitCode !== null) throw new Error(`node ${this.name} has ended:\n${this.stderr}`);
      return text.includes('\n');
    }, `node ${this.name} to listen`);
    const facts = JSON.parse(text) as { mcpUrl: string; controlUrl: string; token: string };
    this.mcpUrl = facts.mcpUrl;
    this.controlUrl = facts.controlUrl;
    this.#token = facts.token;
  }

  serverUrl(server: string): string {
    return this.mcpUrl.replace(/\/mcp$/, `/servers/${server}/mcp`);
  }

  async ready(): Promise<boolean> {
    const response = await fetch(new URL('/readyz', this.mcpUrl)).catch(() => null);
    await response?.body?.cancel();
    return response?.status === 200;
  }

  async control<T>(path: string, method = 'GET'): Promise<T> {
    const headers = { authorization: `Bearer ${this.#token}` };
    const response = await fetch(new URL(path, this.controlUrl), { method, headers });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  /** Names of servers that can be called from here, in this state. */
  async servers(state = /running|connected/): Promise<string[]> {
    const { servers } = await this.control<{ servers: { name: string; state: string }[] }>('/api/v1/servers');
    return servers.filter((server) => state.test(server.state)).map(({ name }) => name);
  }

  kill(signal: NodeJS.Signals): void {
    this.process.kill(signal);
  }
}

/** Nodes as processes on a real nats-server. */
export class ClusterProcesses {
  readonly nats: NatsServer;
  readonly folder = mkdtempSync(join(tmpdir(), 'trunkline-cluster-'));
  readonly nodes: NodeProcess[] = [];

  private constructor(nats: NatsServer) {
    this.nats = nats;
  }

  static async start(): Promise<ClusterProcesses> {
    return new ClusterProcesses(await NatsServer.start());
  }

  /** Starts a node, and waits until it is ready. */
  async node(name: string, servers: object, more: object = {}): Promise<NodeProcess> {
    const file = join(this.folder, `${name}-${this.nodes.length}.json`);
    const config = { $schema: 'trunkline', mcpServers: servers, listen: { port: 0 }, control: { port: 0 }, ...more };
    writeFileSync(file, JSON.stringify(config));
    const child = spawn(process.execPath, [PROGRAM, name, this.nats.url, file], {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const node = new NodeProcess(name, child);
    this.nodes.push(node);
    await node.started();
    await until(() => node.ready(), `node ${name} to be ready`);
    return node;
  }

  async dispose(): Promise<void> {
    for (const node of this.nodes) {
      if (node.process.exitCode !== null || node.process.signalCode !== null) continue;
      node.kill('SIGCONT');
      node.kill('SIGTERM');
    }
    const ended = Promise.all(this.nodes.map(({ exited }) => exited));
    const late = setTimeout(() => {
      for (const node of this.nodes) node.kill('SIGKILL');
    }, 15_000);
    await ended;
    clearTimeout(late);
    await this.nats[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + WAIT_MS;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}
