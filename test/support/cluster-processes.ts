import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { SECRET } from './cluster-bench.ts';
import { NatsServer, type NatsServerOptions } from './nats-server.ts';
import { type GatewayOptions, RunningGateway } from './running-gateway.ts';

const COUNTER = resolve(import.meta.dirname, '../fixtures/cluster/counter.mjs');
/** Long enough for a loaded machine. */
const WAIT_MS = 30_000;

/** The definition of the fixture that counts and says who it is. */
export function counterServer(more: object = {}): object {
  return { command: process.execPath, args: [COUNTER], ...more };
}

interface Health {
  readonly status: 'ready' | 'degraded' | 'not ready';
  readonly degraded?: readonly string[];
  readonly node: { readonly peer: string; readonly state: string };
}

export interface NodeOptions extends Omit<GatewayOptions, 'config'> {
  /** The address of NATS. */
  readonly nats: string;
}

/** One node: a gateway as a process, as a user starts it. */
export class NodeProcess {
  readonly name: string;
  readonly gateway: RunningGateway;

  /** Does not wait until it is ready. */
  static async start(name: string, servers: object, more: object, options: NodeOptions): Promise<NodeProcess> {
    const { nats, args = [], ...rest } = options;
    const cluster = { nats, node: name, secret: SECRET, ...('cluster' in more ? (more.cluster as object) : {}) };
    const config = { $schema: 'trunkline', mcpServers: servers, ...more, cluster };
    const started = await RunningGateway.start({ ...rest, args: ['--log-level', 'info', ...args], config });
    return new NodeProcess(name, started);
  }

  constructor(name: string, gateway: RunningGateway) {
    this.name = name;
    this.gateway = gateway;
  }

  get mcpUrl(): string {
    return this.gateway.mcpUrl;
  }

  get stderr(): string {
    return this.gateway.stderr;
  }

  get exited(): Promise<number | null> {
    return this.gateway.exited;
  }

  get ended(): boolean {
    const { exitCode, signalCode } = this.gateway.process;
    return exitCode !== null || signalCode !== null;
  }

  serverUrl(server: string): string {
    return this.gateway.serverUrl(server);
  }

  async ready(): Promise<boolean> {
    const response = await fetch(new URL('/readyz', this.mcpUrl)).catch(() => null);
    await response?.body?.cancel();
    return response?.status === 200;
  }

  /** Null if it does not answer. */
  async health(): Promise<Health | null> {
    const response = await fetch(new URL('/health', this.mcpUrl)).catch(() => null);
    return ((await response?.json().catch(() => null)) as Health | null | undefined) ?? null;
  }

  /** Ready, and with its lease. */
  async serves(): Promise<boolean> {
    const health = await this.health();
    return health !== null && health.status !== 'not ready' && health.node.state === 'ready';
  }

  control<T>(path: string, method = 'GET'): Promise<T> {
    return this.gateway.control<T>(path, method);
  }

  /** NaN without that series. */
  async metric(series: string): Promise<number> {
    const line = (await this.gateway.metrics()).split('\n').find((one) => one.startsWith(`${series} `));
    return Number(line?.slice(series.length + 1) ?? Number.NaN);
  }

  /** Names of servers that can be called from here. */
  async servers(): Promise<string[]> {
    const { servers } = await this.control<{ servers: { name: string; state: string }[] }>('/api/v1/servers');
    return servers.filter(({ state }) => /running|connected/.test(state)).map(({ name }) => name);
  }

  kill(signal: NodeJS.Signals): void {
    this.gateway.process.kill(signal);
  }
}

/** Nodes as processes on a real nats-server. */
export class ClusterProcesses {
  readonly nats: NatsServer;
  /** For files of the test. */
  readonly folder = mkdtempSync(join(tmpdir(), 'trunkline-cluster-'));
  readonly nodes: NodeProcess[] = [];

  private constructor(nats: NatsServer) {
    this.nats = nats;
  }

  static async start(options: NatsServerOptions = {}): Promise<ClusterProcesses> {
    return new ClusterProcesses(await NatsServer.start(options));
  }

  /** Starts a node, and waits until it is ready. */
  async node(
    name: string,
    servers: object,
    more: object = {},
    options: Partial<NodeOptions> = {},
  ): Promise<NodeProcess> {
    const node = await NodeProcess.start(name, servers, more, { nats: this.nats.url, ...options });
    this.nodes.push(node);
    await until(() => node.ready(), `node ${name} to be ready:\n${node.stderr}`);
    return node;
  }

  async dispose(): Promise<void> {
    const left = this.nodes.filter(({ ended }) => !ended);
    for (const node of left) {
      node.kill('SIGCONT');
      // No load balancer is in front: the node need not be unready for a while first.
      node.kill('SIGINT');
    }
    const late = setTimeout(() => {
      for (const node of left) node.kill('SIGKILL');
    }, 15_000);
    await Promise.all(left.map(({ exited }) => exited));
    clearTimeout(late);
    for (const { gateway } of this.nodes) await gateway.dispose();
    await this.nats[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + WAIT_MS;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`timed out waiting for ${what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}
