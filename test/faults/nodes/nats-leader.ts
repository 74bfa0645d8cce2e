import { setTimeout as sleep } from 'node:timers/promises';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { callable, type Who, wordOf } from '../../support/cluster-facts.ts';
import { counterServer, NodeProcess, until } from '../../support/cluster-processes.ts';
import { eventually, NatsCluster } from '../../support/nats-cluster.ts';
import type { NatsServer } from '../../support/nats-server.ts';
import { WireClient } from '../../support/wire-client.ts';

/** The test watches at least this long, and until every node renews its lease again. */
const WATCHED_MS = 16_000;
/** nats-server 2.9 takes up to 30 s after the loss of a disk. */
const LONGEST_MS = 60_000;
const LOOK_MS = 250;
const BACK_MS = 3_000;
const EVERY_MS = 50;
/** After this time each lease names its witnesses. */
const SETTLED_MS = 1_500;

export interface LeaderLossOptions {
  readonly disk: 'kept' | 'lost';
  /** Path of nats-server. */
  readonly program?: string;
  /** Default: three. */
  readonly nodes?: 2 | 3;
  /** The last node dies with the server, as if they shared a machine. */
  readonly withNode?: boolean;
}

export interface LeaderLossResult {
  /** The longest time for which a node could not renew its lease. */
  readonly electionMs: number;
  readonly calls: number;
  /** Calls that need no lease and did not end with RESULT, in words. */
  readonly leaselessFailed: readonly string[];
  /** Failed calls that need a lease, other than NOT_SENT and retryable. */
  readonly wrong: readonly string[];
  /** From the first to the last failed call that needs a lease, by what was called. */
  readonly failedMs: Readonly<Record<string, number>>;
  /** The longest that a call which needs a lease took, by what was called. */
  readonly slowestMs: Readonly<Record<string, number>>;
  readonly noneReady: number;
  /** Processes of sessions and singletons of living nodes that another one replaced. */
  readonly replaced: number;
}

/** Kills the NATS server that leads the stream of the leases, while clients call at all nodes. */
export async function leaderLoss({
  disk,
  program,
  nodes: count = 3,
  withNode = false,
}: LeaderLossOptions): Promise<LeaderLossResult> {
  await using nats = await NatsCluster.of(program ?? 'nats-server', 3);
  const urls = nats.servers.map(({ url }) => url);
  const servers = {
    own: counterServer(),
    single: counterServer({ singleton: true }),
    shared: counterServer({ isolation: 'shared' }),
  };
  const nodes: NodeProcess[] = [];
  try {
    for (const name of ['a', 'b', 'c'].slice(0, count)) {
      nodes.push(await NodeProcess.start(name, servers, { cluster: { nats: urls } }, { nats: urls[0]! }));
    }
    for (const node of nodes) {
      await until(() => node.serves(), `${node.name} to have its lease`);
      await callable(node, 'own', 'shared');
    }
    const living = withNode ? nodes.slice(0, -1) : nodes;
    const [a, b] = living as [NodeProcess, NodeProcess];
    const own = await WireClient.open(a.serverUrl('own'));
    const ownElsewhere = await WireClient.open(b.serverUrl('own'));
    await until(async () => wordOf(await who(ownElsewhere)) === 'RESULT', 'a call at the first node');
    // The same session by way of another node.
    ownElsewhere.url = a.serverUrl('own');
    const single = await Promise.all(living.map((node) => WireClient.open(node.serverUrl('single'))));
    const shared = await Promise.all(living.map((node) => WireClient.open(node.serverUrl('shared'))));
    const owned = { own: [own], forwarded: [ownElsewhere], singleton: single };
    for (const client of [own, ownElsewhere, ...single, ...shared]) {
      let message: Answer;
      const served = async (): Promise<boolean> => wordOf((message = await who(client))) === 'RESULT';
      await until(served, `a call at ${client.url}`).catch((error: Error) => {
        throw new Error(`${error.message}: ${JSON.stringify(message)}`);
      });
    }
    await sleep(SETTLED_MS);
    const before = await pids(Object.values(owned).flat());
    const killed = await leader(nats);
    const world = new Watched();
    const at = performance.now();
    if (withNode) nodes.at(-1)!.kill('SIGKILL');
    await killed.kill();
    const running = [
      ...Object.entries(owned).flatMap(([kind, clients]) =>
        clients.map((client) => world.call(kind, () => who(client))),
      ),
      ...shared.map((client) => world.call('shared', () => who(client))),
      world.call('new', async () => who(await WireClient.open(b.serverUrl('own')))),
    ];
    const leases = new Leases(living);
    const following = leases.follow(() => world.over);
    while (performance.now() - at < BACK_MS) await world.look(living);
    if (disk === 'lost') killed.forget();
    const returned = killed.run();
    while (performance.now() - at < WATCHED_MS || leases.oldestMs > SETTLED_MS) {
      if (performance.now() - at > LONGEST_MS) throw new Error('a node does not renew its lease');
      await world.look(living);
    }
    world.over = true;
    await Promise.all([...running, returned, following]);
    await until(async () => (await a.serves()) && (await b.serves()), 'the nodes to have their leases again');
    const after = await pids(Object.values(owned).flat());
    return {
      ...world.result,
      electionMs: leases.longestMs,
      replaced: before.filter((pid, i) => pid !== after[i]).length,
    };
  } catch (error) {
    for (const { name, stderr } of nodes) console.error(`--- ${name}\n${stderr.slice(-4_000)}`);
    throw error;
  } finally {
    for (const node of nodes) {
      node.kill('SIGKILL');
      await node.exited;
      await node.gateway.dispose();
    }
  }
}

/** How old the leases of these nodes are. */
class Leases {
  readonly #nodes: readonly NodeProcess[];
  /** The age of the oldest lease, now. */
  oldestMs = Number.POSITIVE_INFINITY;
  longestMs = 0;

  constructor(nodes: readonly NodeProcess[]) {
    this.#nodes = nodes;
  }

  async follow(over: () => boolean): Promise<void> {
    while (!over()) {
      const ages = await Promise.all(this.#nodes.map((node) => node.metric('trunkline_cluster_lease_age_seconds')));
      // A node that lost its lease has none.
      this.oldestMs = ages.some(Number.isNaN) ? Number.POSITIVE_INFINITY : Math.max(...ages) * 1_000;
      if (Number.isFinite(this.oldestMs)) this.longestMs = Math.max(this.longestMs, this.oldestMs);
      await sleep(LOOK_MS);
    }
  }
}

class Watched {
  over = false;
  #calls = 0;
  #noneReady = 0;
  readonly #leaselessFailed: string[] = [];
  readonly #wrong: string[] = [];
  readonly #failed = new Map<string, { readonly from: number; to: number }>();
  readonly #slowestMs: Record<string, number> = {};

  async look(nodes: readonly NodeProcess[]): Promise<void> {
    const ready = await Promise.all(nodes.map((node) => node.ready()));
    if (!ready.includes(true)) this.#noneReady++;
    await sleep(EVERY_MS);
  }

  /** Repeats the call until the watch is over. */
  async call(kind: string, once: () => Promise<Answer>): Promise<void> {
    while (!this.over) {
      const from = performance.now();
      const message = await once();
      this.#calls++;
      this.#judge(kind, message, from, performance.now());
      await sleep(EVERY_MS);
    }
  }

  get result(): Omit<LeaderLossResult, 'electionMs' | 'replaced'> {
    return {
      calls: this.#calls,
      leaselessFailed: this.#leaselessFailed,
      wrong: this.#wrong,
      failedMs: Object.fromEntries([...this.#failed].map(([kind, { from, to }]) => [kind, to - from])),
      slowestMs: this.#slowestMs,
      noneReady: this.#noneReady,
    };
  }

  #judge(kind: string, message: Answer, from: number, to: number): void {
    const word = wordOf(message);
    if (kind !== 'shared') this.#slowestMs[kind] = Math.max(this.#slowestMs[kind] ?? 0, to - from);
    if (word === 'RESULT') return;
    const words = `${kind}: ${JSON.stringify(message)}`;
    if (kind === 'shared') this.#leaselessFailed.push(words);
    else if (word !== 'NOT_SENT' || message.error.data.retryable !== true) this.#wrong.push(words);
    const failed = this.#failed.get(kind);
    if (failed === undefined) this.#failed.set(kind, { from, to });
    else failed.to = to;
  }
}

// biome-ignore lint/suspicious/noExplicitAny: what came over the wire.
type Answer = any;

async function who(client: WireClient): Promise<Answer> {
  return (await client.request('tools/call', { name: 'who', arguments: {} })).message;
}

async function pids(clients: readonly WireClient[]): Promise<number[]> {
  const all: number[] = [];
  for (const client of clients) all.push((JSON.parse(await client.callText('who')) as Who).pid);
  return all;
}

/** The server that leads the stream of the leases, once every stream has three current copies. */
async function leader(nats: NatsCluster): Promise<NatsServer> {
  const connection = await connect({ servers: nats.servers.map(({ url }) => url) });
  try {
    const manager = await jetstreamManager(connection);
    return await eventually(async () => {
      let led: string | undefined;
      for (const name of ['KV_trunkline_claims', 'KV_trunkline_sessions', 'KV_trunkline_leases']) {
        const { cluster, config } = await manager.streams.info(name);
        const current = cluster?.replicas?.every((replica) => replica.current) === true;
        if (config.num_replicas !== 3 || !current) throw new Error(`${name} has no three current copies`);
        led = cluster?.leader;
      }
      return nats.servers[Number(led!.slice(1))]!;
    });
  } finally {
    await connection.close();
  }
}
