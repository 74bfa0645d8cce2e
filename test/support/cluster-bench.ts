import type { Bus } from '../../src/bus/bus.ts';
import { MemorySharedState } from '../../src/bus/memory/memory-shared-state.ts';
import { MemoryHub, type MemoryWire } from '../../src/bus/memory/memory-wire.ts';
import type { Bucket, SharedState } from '../../src/bus/shared-state.ts';
import { SignedBus } from '../../src/bus/signed-bus.ts';
import { KeyRing } from '../../src/bus/trust/key-ring.ts';
import { Cluster } from '../../src/cluster/cluster.ts';
import type { ClusterDeps, LocalUpstreams } from '../../src/cluster/cluster-deps.ts';
import { Sealer } from '../../src/gateway/sealer.ts';
import type { ClientProfile } from '../../src/model/client-profile.ts';
import type { Exchange } from '../../src/model/exchange.ts';
import { GatewayError } from '../../src/model/gateway-error.ts';
import type { Message } from '../../src/model/message.ts';
import { answer, failure, type Outcome } from '../../src/model/outcome.ts';
import type { UpstreamEvents } from '../../src/model/ports.ts';
import { ANONYMOUS } from '../../src/model/principal.ts';
import { systemRandom } from '../../src/model/random.ts';
import type { Server } from '../../src/model/server.ts';
import type { ServerCatalog } from '../../src/model/server-catalog.ts';
import type { ServerStatus } from '../../src/model/server-state.ts';
import { request, result } from '../../src/protocol/compose.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { FakeClock, settled } from './fake-clock.ts';

export const SECRET = 'a secret of a cluster, 32 bytes and more';
const KEY = Buffer.alloc(32, 7);

export function serverNamed(name: string, more: Partial<Server> = {}): Server {
  return {
    name,
    transport: { type: 'stdio', command: 'node', args: [name], env: {}, inheritEnv: false, cwd: '/srv' },
    description: null,
    isolation: null,
    isolationHeader: null,
    timeoutMs: 60_000,
    toolTimeoutMs: new Map(),
    retry: 'never',
    trusted: false,
    cache: true,
    start: 'lazy',
    probeMs: 0,
    enabled: true,
    tools: { include: null, exclude: new Set() },
    limits: { maxMessageBytes: 1 << 24, maxProcesses: 16 },
    origin: { file: '/srv/trunkline.json', line: 1, column: 1 },
    connectionDigest: name,
    ...more,
  };
}

export const remoteSpec = { type: 'http', url: 'http://127.0.0.1:1/mcp', headers: {}, tls: {} } as const;

export function clientOf(sessionId: string | null): ClientProfile {
  return {
    principal: ANONYMOUS,
    sessionId,
    revision: sessionId === null ? '2026-07-28' : '2025-11-25',
    capabilities: '{}',
    fingerprint: '{}',
    info: null,
    logLevel: null,
    handle: null,
  };
}

/** An exchange of a test: keeps what was emitted, answers what is asked. */
export class TestExchange implements Exchange {
  readonly id = 'test';
  readonly request: Message;
  readonly client: ClientProfile;
  readonly takesInputRequired = false;
  cancelled: string | null = null;
  onCancel: ((reason: string) => void) | null = null;
  readonly emitted: string[] = [];
  readonly asked: string[] = [];

  constructor(sessionId: string | null = 's1', params = '{"name":"t","arguments":{"n":12345678901234567890}}') {
    this.request = request('tools/call', '7', params, sessionId === null ? 'stateless' : 'stateful');
    this.client = clientOf(sessionId);
  }

  emit(notification: Message): void {
    this.emitted.push(notification.bytes.toString());
  }

  async ask(question: Message): Promise<Message> {
    this.asked.push(question.bytes.toString());
    return result(question.id, '{"answer":1.0}', question.era);
  }

  cancel(reason: string): void {
    this.cancelled = reason;
    this.onCancel?.(reason);
  }
}

export interface Call {
  readonly server: string;
  readonly request: Message;
  readonly exchange: Exchange;
  readonly end: (outcome: Outcome) => void;
}

/** The servers of one node, played by the test: calls are answered at once, with the node's name, or kept. */
export class PlayedUpstreams implements LocalUpstreams {
  readonly node: string;
  desired: ReadonlyMap<string, Server> = new Map();
  readonly calls: Call[] = [];
  readonly surrendered: string[] = [];
  readonly handedOver: string[] = [];
  readonly released: string[] = [];
  readonly notified: string[] = [];
  readonly relisted: string[] = [];
  readonly restarted: string[] = [];
  /** What it says of its servers, by name. */
  readonly states = new Map<string, ServerStatus>();
  readonly catalogs = new Map<string, ServerCatalog>();
  keeps = false;
  /** What was dropped is there until then. */
  ending: Promise<void> = Promise.resolve();
  handle: ((call: Call) => void) | null = null;

  constructor(node: string) {
    this.node = node;
  }

  async apply(servers: ReadonlyMap<string, Server>): Promise<void> {
    const dropped = [...this.desired.keys()].some((name) => !servers.has(name));
    this.desired = servers;
    if (dropped) await this.ending;
  }

  async handOver(server: string, whose: ClientProfile | null): Promise<void> {
    this.handedOver.push(`${server} ${whose === null ? 'null' : whose.sessionId}`);
    await this.ending;
  }

  surrender(server: string, whose: ClientProfile | 'spare' | null): void {
    this.surrendered.push(`${server} ${whose === null || whose === 'spare' ? String(whose) : whose.sessionId}`);
  }

  async relist(server: string): Promise<void> {
    this.relisted.push(server);
  }

  async relistFor(server: string): Promise<void> {
    this.relisted.push(`${server} anew`);
  }

  listedFor(server: string): readonly ClientProfile[] {
    return this.catalogs.has(server) ? [clientOf('somebody')] : [];
  }

  servers(): readonly Server[] {
    return [...this.desired.values()];
  }

  call(server: string, message: Message, exchange: Exchange): Promise<Outcome> {
    if (!this.desired.has(server)) {
      return Promise.resolve(failure(new GatewayError('NOT_SENT', `there is no server ${server}`, { server })));
    }
    return new Promise((resolve) => {
      const call: Call = { server, request: message, exchange, end: resolve };
      this.calls.push(call);
      if (this.handle !== null) this.handle(call);
      else if (!this.keeps) resolve(answer(result('1', `{"node":"${this.node}"}`, message.era)));
    });
  }

  notify(server: string, notification: Message): void {
    this.notified.push(`${server} ${notification.method}`);
  }

  knownCatalog(server: string): ServerCatalog | null {
    return this.catalogs.get(server) ?? null;
  }

  async catalog(server: string): Promise<ServerCatalog | null> {
    return this.catalogs.get(server) ?? null;
  }

  sessionKey(_server: string, client: ClientProfile): string | null {
    return client.sessionId;
  }

  ownsConnection(): boolean {
    return true;
  }

  status(server: string): ServerStatus | null {
    return this.states.get(server) ?? null;
  }

  statuses(): readonly ServerStatus[] {
    return [...this.states.values()];
  }

  async restart(server: string): Promise<void> {
    this.restarted.push(server);
    if (!this.desired.has(server)) throw new GatewayError('INVALID_PARAMS', `there is no server ${server}`, { server });
  }

  releaseSession(sessionId: string): void {
    this.released.push(sessionId);
  }
}

/** What a gateway of a test has heard of servers. */
export class HeardEvents implements UpstreamEvents {
  readonly heard: string[] = [];
  /** Who watches which server. */
  readonly watching: { readonly server: string; readonly client: ClientProfile }[] = [];
  /** Those of them, as `server session`, whose node fell silent. */
  readonly silenced: string[] = [];
  readonly homesGainedOf: string[] = [];
  /** Servers of which another node has other lists now. */
  readonly listedElsewhereOf: string[] = [];

  notification(server: string, sessionId: string | null, message: Message): void {
    this.heard.push(`notification ${server} ${sessionId} ${message.method}`);
  }

  async request(server: string, sessionId: string | null, message: Message): Promise<Message> {
    this.heard.push(`request ${server} ${sessionId} ${message.method}`);
    return result(message.id, '{"roots":[]}', message.era);
  }

  outdated(server: string): void {
    this.heard.push(`outdated ${server}`);
  }

  listedElsewhere(server: string): void {
    this.listedElsewhereOf.push(server);
  }

  nodeSilent(servedThere: (server: string, client: ClientProfile) => boolean): void {
    const served = this.watching.filter(({ server, client }) => servedThere(server, client));
    this.silenced.push(...served.map(({ server, client }) => `${server} ${client.sessionId}`));
  }

  homesGained(servers: ReadonlySet<string>): void {
    this.homesGainedOf.push(...servers);
  }

  catalogChanged(server: string): void {
    this.heard.push(`catalogChanged ${server}`);
  }

  stateLost(server: string, sessionId: string): void {
    this.heard.push(`stateLost ${server} ${sessionId}`);
  }

  connectionChanged(server: string, key: string, change: string): void {
    this.heard.push(`connectionChanged ${server} ${key} ${change}`);
  }

  statusChanged(): void {}
}

export interface PlayedNode {
  readonly id: string;
  readonly cluster: Cluster;
  readonly local: PlayedUpstreams;
  readonly events: HeardEvents;
  readonly bus: Bus;
  /** From now on the node reaches nobody, and nobody it. */
  cut(): void;
  restore(): void;
}

/** A bus as each node of a cluster has one. */
export function memoryBus(hub: MemoryHub, clock: FakeClock): Bus {
  const keys = new KeyRing([SECRET]);
  return new SignedBus({ wire: hub.open(), clock, keys, random: systemRandom, logger: Logger.silent() });
}

/** Nodes of one cluster in this process, on a clock that stands still until told. */
export class ClusterBench {
  readonly clock = new FakeClock();
  readonly hub = new MemoryHub();
  readonly state = new MemorySharedState(this.clock);
  readonly nodes: PlayedNode[] = [];

  async join(id: string, servers: readonly Server[], more: Partial<ClusterDeps> = {}): Promise<PlayedNode> {
    const { clock } = this;
    const wire = this.hub.open();
    const keys = new KeyRing([SECRET]);
    const bus = new SignedBus({ wire, clock, keys, random: systemRandom, logger: Logger.silent() });
    const local = new PlayedUpstreams(id);
    const events = new HeardEvents();
    const cluster = new Cluster(
      {
        bus,
        state: new CuttableState(this.state, wire),
        clock,
        random: systemRandom,
        logger: Logger.silent(),
        node: id,
        version: '0.0.0',
        key: KEY,
        sealing: new Sealer(KEY),
        events,
        watchLoop: false,
        ...more,
      },
      () => local,
    );
    const node: PlayedNode = {
      id,
      cluster,
      local,
      events,
      bus,
      cut: () => wire.cut(),
      restore: () => wire.restore(),
    };
    this.nodes.push(node);
    await cluster.apply(new Map(servers.map((server) => [server.name, server])));
    cluster.start();
    await this.pass(800);
    return node;
  }

  /** Time goes by in steps short enough for every heartbeat to be heard when it is sent. */
  async pass(ms: number, each: () => void = () => {}): Promise<void> {
    for (let passed = 0; passed < ms; passed += 50) {
      await this.clock.advance(Math.min(50, ms - passed));
      await settled();
      each();
    }
  }

  /** Lets time pass until the promise has settled. */
  async until<T>(work: Promise<T>, mostMs = 20_000): Promise<T> {
    let done = false;
    const watched = work.finally(() => {
      done = true;
    });
    watched.catch(() => {});
    for (let passed = 0; !done && passed < mostMs; passed += 50) await this.pass(50);
    if (!done) throw new Error(`not settled within ${mostMs} ms`);
    return watched;
  }

  async dispose(): Promise<void> {
    for (const { cluster } of this.nodes) await this.until(cluster.close(), 60_000);
  }
}

/** Runs a test on a bench of its own; its nodes are closed whatever comes of it. */
export async function onNodes(run: (nodes: ClusterBench) => Promise<void>): Promise<void> {
  const nodes = new ClusterBench();
  try {
    await run(nodes);
  } finally {
    await nodes.dispose();
  }
}

/** A store that loses everything when it is told to. */
export function losing({ state: first, clock }: ClusterBench): { readonly state: SharedState; lose(): Promise<void> } {
  let present: SharedState = first;
  let made = 0;
  const lose = async (): Promise<void> => {
    const anew = new MemorySharedState(clock);
    made++;
    // So that each bucket is another making.
    for (let i = 0; i < 50 * made; i++) await anew.bucket(`other-${i}`, { ttlMs: 0 });
    present = anew;
  };
  return { state: { bucket: (name, options) => present.bucket(name, options) }, lose };
}

/** The store of the cluster as a node sees it whose connection may be cut: then nothing is answered. */
class CuttableState implements SharedState {
  readonly #state: SharedState;
  readonly #wire: MemoryWire;

  constructor(state: SharedState, wire: MemoryWire) {
    this.#state = state;
    this.#wire = wire;
  }

  async bucket(name: string, options: { readonly ttlMs: number }): Promise<Bucket> {
    const bucket = await this.#reached(() => this.#state.bucket(name, options));
    return {
      name: bucket.name,
      incarnation: bucket.incarnation,
      get: (key) => this.#reached(() => bucket.get(key)),
      create: (key, value) => this.#reached(() => bucket.create(key, value)),
      update: (key, value, revision) => this.#reached(() => bucket.update(key, value, revision)),
      delete: (key, revision) => this.#reached(() => bucket.delete(key, revision)),
      keys: (pattern) => this.#reached(() => bucket.keys(pattern)),
      watch: (pattern, watcher) => this.#reached(() => bucket.watch(pattern, watcher)),
    };
  }

  async #reached<T>(work: () => Promise<T>): Promise<T> {
    if (this.#wire.connected) {
      const done = await work();
      if (this.#wire.connected) return done;
    }
    throw new GatewayError('UNKNOWN', 'the store does not answer');
  }
}
