import assert from 'node:assert/strict';
import type { Bus } from '../../src/bus/bus.ts';
import { MemorySharedState } from '../../src/bus/memory/memory-shared-state.ts';
import type { MemoryHub } from '../../src/bus/memory/memory-wire.ts';
import type { Bucket, SharedState } from '../../src/bus/shared-state.ts';
import { SignedBus } from '../../src/bus/signed-bus.ts';
import { KeyRing } from '../../src/bus/trust/key-ring.ts';
import { Cluster } from '../../src/cluster/cluster.ts';
import type { ClusterParts } from '../../src/cluster/cluster-deps.ts';
import { Sealer } from '../../src/gateway/sealer.ts';
import type { ClientProfile } from '../../src/model/client-profile.ts';
import type { Exchange } from '../../src/model/exchange.ts';
import { GatewayError } from '../../src/model/gateway-error.ts';
import type { Message } from '../../src/model/message.ts';
import { failure, type Outcome } from '../../src/model/outcome.ts';
import { systemRandom } from '../../src/model/random.ts';
import type { Server } from '../../src/model/server.ts';
import { request, result } from '../../src/protocol/compose.ts';
import { Logger } from '../../src/telemetry/logger.ts';
import { CuttableHub, type CuttableWire } from './cuttable-wire.ts';
import { FakeClock, settled } from './fake-clock.ts';
import { openedLate } from './opened-late.ts';
import { clientOf, PlayedUpstreams, RecordedEvents } from './played-upstreams.ts';

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

/** An exchange of a test: records emitted messages and answers input requests. */
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

export interface PlayedNode {
  readonly id: string;
  readonly cluster: Cluster;
  readonly local: PlayedUpstreams;
  readonly events: RecordedEvents;
  readonly bus: Bus;
  /** From now on the node is cut off from all other nodes and from the store. */
  cut(): void;
  restore(): void;
  /** From now on the other nodes do not receive its heartbeats, and lose it, but it receives theirs. */
  mute(): void;
  unmute(): void;
  /** The messaging system reports that the node has lost messages because it is slow. */
  overrun(): void;
}

/** A call that comes to the node, of a client with that session. */
export function callOf({ cluster }: PlayedNode, server: string, session = 's1'): Promise<Outcome> {
  const exchange = new TestExchange(session);
  return cluster.upstreams.call(server, exchange.request, exchange);
}

/** The body of the answer, which names the node that served it; for a failure, its outcome. */
export function wordOf(outcome: Outcome): string {
  return outcome.kind === 'answer' ? outcome.message.body.toString() : outcome.error.outcome;
}

/** A bus as each node of a cluster has one. */
export function memoryBus(hub: MemoryHub, clock: FakeClock): Bus {
  const keys = new KeyRing([SECRET]);
  return new SignedBus({ wire: hub.open(), clock, keys, random: systemRandom, logger: Logger.silent() });
}

/** The downstream side of a node without clients. */
export const NO_CLIENTS: ClusterParts['downstream'] = {
  returned: async () => failure(new GatewayError('NOT_SENT', 'no call waits here')),
  listening: () => false,
  listeners: () => [],
  sessionsFor: () => [],
  clientOf: () => null,
  posted: () => ({ status: 404, code: -32600, text: 'Session not found', id: '' }),
  fromElsewhere: () => {},
  resumeFor: async () => false,
  deliver: () => {},
  ask: () => Promise.reject(new GatewayError('NOT_SENT', 'no client is here')),
};
/** A node that knows no other. */
export const ALONE = { bus: { peer: 'a' } as Bus, nodes: { others: () => [] } };
const NO_SUBSCRIPTIONS: ClusterParts['gateway'] = {
  givenUp: () => {},
  subscribeAgain: async () => 'later',
  mayHaveChanged: () => {},
};

/** Nodes of one cluster in this process, on a clock that only the test advances. */
export class ClusterBench {
  readonly clock = new FakeClock();
  readonly hub = new CuttableHub();
  readonly state = new MemorySharedState(this.clock);
  readonly nodes: PlayedNode[] = [];

  async join(id: string, servers: readonly Server[], more: Partial<ClusterParts> = {}): Promise<PlayedNode> {
    const { clock } = this;
    const wire = this.hub.open();
    const keys = new KeyRing([SECRET]);
    const bus = new SignedBus({ wire, clock, keys, random: systemRandom, logger: Logger.silent() });
    const local = new PlayedUpstreams(id);
    /** Parts that need the cluster are not available while it is constructed. */
    let made = false;
    const once = <T>(room: T): T => {
      assert.ok(made, 'a part is read while the cluster is constructed');
      return room;
    };
    const { downstream = NO_CLIENTS, gateway = NO_SUBSCRIPTIONS, ...rest } = more;
    const events = new RecordedEvents();
    const cluster = new Cluster({
      bus,
      state: new CuttableState(this.state, wire),
      clock,
      random: systemRandom,
      logger: Logger.silent(),
      node: id,
      version: '0.0.0',
      memory: { level: 'ample' },
      key: KEY,
      sealing: new Sealer(KEY),
      events,
      get local() {
        return once(local);
      },
      get downstream() {
        return once(downstream);
      },
      get gateway() {
        return once(gateway);
      },
      watchLoop: false,
      ...rest,
    });
    made = true;
    const node: PlayedNode = {
      id,
      cluster,
      local,
      events,
      bus,
      cut: () => wire.cut(),
      restore: () => wire.restore(),
      mute: () => {
        wire.muted = /^trunkline\.(node|beat)\./;
      },
      unmute: () => {
        wire.muted = null;
      },
      overrun: () => wire.overrun(),
    };
    this.nodes.push(node);
    await cluster.apply(new Map(servers.map((server) => [server.name, server])));
    cluster.start();
    await this.pass(800);
    return node;
  }

  /** Advances the clock in steps short enough for each heartbeat to arrive when it is sent. */
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

/** Runs a test on a bench of its own, and closes its nodes whether it passes or fails. */
export async function onNodes(run: (nodes: ClusterBench) => Promise<void>): Promise<void> {
  const nodes = new ClusterBench();
  try {
    await run(nodes);
  } finally {
    await nodes.dispose();
  }
}

/** A store that loses everything on `lose()`. */
export function losing({ state: first, clock }: ClusterBench): { readonly state: SharedState; lose(): Promise<void> } {
  let present: SharedState = first;
  let made = 0;
  const lose = async (): Promise<void> => {
    const anew = new MemorySharedState(clock);
    made++;
    // So that each bucket has a new incarnation.
    for (let i = 0; i < 50 * made; i++) anew.bucket(`other-${i}`, { ttlMs: 0 });
    present = anew;
  };
  return { state: { bucket: (name, options) => openedLate(name, async () => present.bucket(name, options)) }, lose };
}

/** The store of the cluster for a node whose connection may be cut: then each request fails. */
class CuttableState implements SharedState {
  readonly #state: SharedState;
  readonly #wire: CuttableWire;

  constructor(state: SharedState, wire: CuttableWire) {
    this.#state = state;
    this.#wire = wire;
  }

  bucket(name: string, options: { readonly ttlMs: number }): Bucket {
    return openedLate(name, async () => {
      const bucket = await this.#reached(async () => this.#state.bucket(name, options));
      return {
        name: bucket.name,
        incarnation: bucket.incarnation,
        get: (key) => this.#reached(() => bucket.get(key)),
        look: (key) => this.#reached(() => bucket.look(key)),
        create: (key, value) => this.#reached(() => bucket.create(key, value)),
        restore: (key, value) => this.#reached(() => bucket.restore(key, value)),
        update: (key, value, revision) => this.#reached(() => bucket.update(key, value, revision)),
        delete: (key, revision) => this.#reached(() => bucket.delete(key, revision)),
        purgeTombstones: (olderThanMs) => this.#reached(() => bucket.purgeTombstones(olderThanMs)),
        keys: (pattern) => this.#reached(() => bucket.keys(pattern)),
        watch: (pattern, watcher) => this.#reached(() => bucket.watch(pattern, watcher)),
      };
    });
  }

  async #reached<T>(work: () => Promise<T>): Promise<T> {
    if (this.#wire.connected) {
      const done = await work();
      if (this.#wire.connected) return done;
    }
    throw new GatewayError('UNKNOWN', 'the store does not answer');
  }
}
