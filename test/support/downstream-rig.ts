import { Downstream } from '../../src/downstream/downstream.ts';
import { KeyAuthenticator } from '../../src/downstream/identity/auth.ts';
import type { OtherNodes } from '../../src/downstream/session/other-nodes.ts';
import { Listener } from '../../src/http/listener/listener.ts';
import { type Clock, systemClock } from '../../src/model/clock.ts';
import { type Agent, type DesiredState, POOL_DEFAULTS, type SessionSettings } from '../../src/model/desired-state.ts';
import type { SessionRecords } from '../../src/model/ports.ts';
import { systemRandom } from '../../src/model/random.ts';
import { Secret } from '../../src/model/secret.ts';
import type { Server } from '../../src/model/server.ts';
import { SqliteEventLog } from '../../src/store/event-log.ts';
import { SqliteSessionRecords } from '../../src/store/remembered.ts';
import { StateFile } from '../../src/store/state-file.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { FakeCore } from './fake-core.ts';
import { EventReader, type Reply, send } from './raw-http.ts';

export interface RigOptions {
  /** Agent name to the servers it may use. */
  readonly agents?: Readonly<Record<string, readonly string[] | null>>;
  readonly unknownCallers?: 'refuse' | 'allow';
  readonly servers?: readonly string[];
  readonly sessions?: Partial<SessionSettings>;
  readonly patienceMs?: number;
  readonly clock?: Clock;
  /** The keys of the installation, to be shared by a gateway and its successor. */
  readonly keys?: readonly Buffer[];
  readonly core?: FakeCore;
  /** A fixed port, for a successor in the same place. */
  readonly port?: number;
  /** Where sessions are kept, to be shared by a gateway and its successor. */
  readonly state?: StateFile;
  /** Reads and writes the sessions in `state`. */
  readonly records?: SessionRecords;
  /** The other nodes of its cluster. */
  readonly others?: OtherNodes;
}

const STREAM = 'application/json, text/event-stream';

/** All of `downstream/` behind a real listener and before a core that a test scripts. */
export class DownstreamRig {
  readonly core: FakeCore;
  readonly downstream: Downstream;
  readonly listener: Listener;
  readonly authenticator: KeyAuthenticator;
  readonly store: StateFile;
  desired: DesiredState;
  readonly #ownsStore: boolean;
  readonly #events: SqliteEventLog;

  private constructor(options: RigOptions) {
    const clock = options.clock ?? systemClock;
    this.core = options.core ?? new FakeCore();
    this.#ownsStore = options.state === undefined;
    this.store = options.state ?? new StateFile({ path: ':memory:', clock, logger: Logger.silent() });
    this.#events = new SqliteEventLog(this.store, clock);
    this.desired = desiredState(options);
    this.listener = new Listener({
      settings: { ...this.desired.listen, port: options.port ?? 0 },
      log: { info: () => {}, warn: () => {}, error: (event, fields) => console.error(event, fields) },
    });
    this.authenticator = new KeyAuthenticator(this.desired);
    this.downstream = new Downstream({
      clock,
      random: systemRandom,
      logger: Logger.silent(),
      metrics: new Metrics(),
      core: this.core,
      authenticator: this.authenticator,
      upstreams: { knownCatalog: () => null },
      records: options.records ?? new SqliteSessionRecords(this.store),
      events: this.#events,
      state: () => this.desired,
      keys: options.keys ?? [Buffer.from(systemRandom.hex(32), 'hex')],
      memoryScarce: () => false,
      wires: { tap: null },
      ...(options.others === undefined ? {} : { others: options.others }),
      ...(options.patienceMs === undefined
        ? {}
        : { patienceMs: options.patienceMs, statelessPatienceMs: options.patienceMs }),
    });
    this.downstream.register(this.listener.routes);
  }

  static async start(options: RigOptions = {}): Promise<DownstreamRig> {
    const rig = new DownstreamRig(options);
    await rig.listener.listen();
    return rig;
  }

  url(path = '/mcp'): string {
    return `http://127.0.0.1:${this.listener.port}${path}`;
  }

  post(body: string | Buffer, headers: Readonly<Record<string, string>> = {}, path = '/mcp'): Promise<Reply> {
    return send(this.url(path), 'POST', { ...JSON_HEADERS, ...headers }, body);
  }

  stream(body: string, headers: Readonly<Record<string, string>> = {}, path = '/mcp'): Promise<EventReader> {
    return EventReader.open(this.url(path), 'POST', { ...JSON_HEADERS, ...headers }, body);
  }

  listen(headers: Readonly<Record<string, string>>, path = '/mcp'): Promise<EventReader> {
    return EventReader.open(this.url(path), 'GET', { accept: 'text/event-stream', ...headers });
  }

  /** Opens a session and gives the headers that belong to it. */
  async session(options: SessionOptions = {}): Promise<Record<string, string>> {
    const { revision = '2025-11-25', capabilities = {}, path = '/mcp', headers = {} } = options;
    const params = { protocolVersion: revision, capabilities, clientInfo: { name: 'test', version: '1' } };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 'init', method: 'initialize', params });
    const reply = await this.post(body, headers, path);
    const id = reply.headers['mcp-session-id'];
    if (typeof id !== 'string') throw new Error(`no session: ${reply.status} ${reply.text}`);
    return { ...headers, 'mcp-session-id': id, 'mcp-protocol-version': revision };
  }

  /** Takes other agents, as after a reload. */
  reload(agents: NonNullable<RigOptions['agents']>): void {
    this.desired = { ...this.desired, agents: desiredState({ agents }).agents };
    this.authenticator.replace(this.desired);
    this.downstream.reauthorize((id) => this.authenticator.principal(id));
  }

  async close(): Promise<void> {
    this.downstream.close();
    await this.listener.close();
    this.#events.close();
    if (this.#ownsStore) this.store.close();
  }
}

export interface SessionOptions {
  readonly revision?: string;
  readonly capabilities?: object;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const JSON_HEADERS = { 'content-type': 'application/json', accept: STREAM };

/** A request of 2026-07-28 with all required members, and its headers. */
export function stateless(
  method: string,
  params: Readonly<Record<string, unknown>> = {},
  options: { readonly id?: string | number; readonly capabilities?: object; readonly meta?: object } = {},
): { readonly body: string; readonly headers: Record<string, string> } {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': options.capabilities ?? {},
    ...options.meta,
  };
  const name = params['name'] ?? params['uri'];
  return {
    body: JSON.stringify({ jsonrpc: '2.0', id: options.id ?? 1, method, params: { ...params, _meta: meta } }),
    headers: {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof name === 'string' ? { 'mcp-name': name } : {}),
    },
  };
}

/** A JSON-RPC request's text. */
export function call(id: string | number, method: string, params: object = {}): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params });
}

function desiredState(options: RigOptions): DesiredState {
  const agents = new Map<string, Agent>();
  for (const [name, servers] of Object.entries(options.agents ?? {})) {
    agents.set(name, {
      name,
      key: new Secret(`key-of-${name}`),
      servers: servers === null ? null : new Set(servers),
    });
  }
  return {
    servers: new Map((options.servers ?? ['memory']).map((name) => [name, server(name)])),
    agents,
    unknownCallers: options.unknownCallers ?? 'refuse',
    listen: {
      host: '127.0.0.1',
      port: 0,
      tls: null,
      publicUrl: null,
      trustedProxies: [],
      allowedHosts: [],
      allowedOrigins: [],
      anonymousRegistry: false,
      insecure: false,
      maxBodyBytes: 4 * 1024 * 1024,
      maxConnections: 10_000,
    },
    control: { host: '127.0.0.1', port: 0, tls: null, token: null, allowedHosts: [], publicUrl: null },
    metricsToken: null,
    metricsAddress: null,
    telemetry: { traces: null, metrics: null },
    allowedCommands: [],
    sessions: { idleMs: 60_000, max: 1_000, maxPerPrincipal: 1_000, ...options.sessions },
    firstListWaitMs: 100,
    maxTimeoutMs: 600_000,
    maxProcesses: 1,
    pool: POOL_DEFAULTS,
    dataDir: null,
    logLevel: 'error',
    cluster: null,
    files: [],
  };
}

function server(name: string): Server {
  return {
    name,
    transport: { type: 'memory', key: name },
    description: null,
    isolation: null,
    isolationHeader: null,
    timeoutMs: 60_000,
    toolTimeoutMs: new Map(),
    retry: 'never',
    trusted: false,
    cache: true,
    probeMs: 30_000,
    start: 'lazy',
    enabled: true,
    tools: { include: null, exclude: new Set() },
    limits: { maxMessageBytes: 1024 * 1024, maxProcesses: 1 },
    origin: { file: 'test', line: 1, column: 1 },
    connectionDigest: name,
  };
}
