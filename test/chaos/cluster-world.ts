import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkLedger, type Evidence, type Violation } from '../faults/ledger/check-ledger.ts';
import { checkOwners } from '../faults/ledger/check-owners.ts';
import { History } from '../faults/ledger/history.ts';
import { LedgerClient, type Route } from '../faults/ledger/ledger-client.ts';
import { type LedgerEntry, readLedger } from '../faults/ledger/ledger-entry.ts';
import { LedgerHttpProcess, ledgerStdio } from '../faults/ledger/ledger-process.ts';
import type { NodeProcess } from '../support/cluster-processes.ts';
import { freePort } from '../support/free-port.ts';
import { NatsServer } from '../support/nats-server.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import { MARK, survivors } from '../support/processes.ts';
import { TcpGate } from '../support/tcp-gate.ts';
import { Balancer } from './balancer.ts';
import { ClusterNode } from './cluster-node.ts';
import { Seeded } from './seeded.ts';

/** HTTP servers that keep a ledger, one of each era. */
export const REMOTES = ['old', 'modern'] as const;
/** stdio servers that keep a ledger: one process for each session; one in the whole cluster; one on each node. */
export const PIPES = ['own', 'single', 'shared'] as const;
export const LEDGERS = [...REMOTES, ...PIPES];

/** Servers that every node serves by itself, lease or not. */
const LEASELESS: ReadonlySet<string> = new Set(['old', 'modern', 'shared']);
/**
 * `forgottenSessions` judges refusals of sessions that the node has not read. A node that stops refuses requests, also one
 * that crosses the end of its idle connection (408, decision 034).
 */
const EXCUSED =
  /"TIMEOUT"|"code":53003|ECONNREFUSED|sessions of the cluster cannot be read|has not read the cluster's sessions|closed this idle connection because it stops/;

const ERAS = { old: 'stateful', modern: 'stateless' } as const;

export interface WorldOptions {
  readonly seed: number;
  readonly nodes?: number;
  /** Deadline of every call. */
  readonly timeoutMs?: number;
  /** How long after its deadline a call may end. */
  readonly lateMs?: number;
  /** Share of the requests that go to any node, also one that is not ready. */
  readonly blind?: number;
  /** Whether a PostgreSQL server stores changes made at run time. */
  readonly store?: boolean;
  /** More servers, and more settings of each node. */
  readonly servers?: object;
  readonly settings?: object;
  /** Each node listens on the same port whenever it starts. */
  readonly fixedPorts?: boolean;
}

/**
 * Nodes as processes on a real nats-server, each behind a gate of its own, and a real PostgreSQL; in front of servers that
 * keep ledgers, for clients that send each request to any of the nodes. Children carry a mark, so that those left over
 * can be counted.
 */
export class ClusterWorld {
  readonly options: Required<Omit<WorldOptions, 'servers' | 'settings' | 'store' | 'fixedPorts'>>;
  readonly folder = mkdtempSync(join(tmpdir(), 'trunkline-world-'));
  readonly mark = randomUUID();
  readonly history = new History();
  readonly nodes: ClusterNode[] = [];
  readonly nats: NatsServer;
  readonly database: PostgresServer | null;
  readonly balancer: Balancer;
  readonly #remotes = new Map<(typeof REMOTES)[number], LedgerHttpProcess>();
  readonly #clients = new Set<LedgerClient>();

  static async start(options: WorldOptions): Promise<ClusterWorld> {
    const database = options.store === false ? null : await PostgresServer.start();
    const world = new ClusterWorld(options, await NatsServer.start(), database);
    try {
      await world.#start(options);
      return world;
    } catch (error) {
      await world.dispose();
      throw error;
    }
  }

  private constructor(options: WorldOptions, nats: NatsServer, database: PostgresServer | null) {
    const { seed, nodes = 3, timeoutMs = 6_000, lateMs = 1_000, blind = 0 } = options;
    this.options = { seed, nodes, timeoutMs, lateMs, blind };
    this.nats = nats;
    this.database = database;
    this.balancer = new Balancer(() => this.running, new Seeded(seed + 7), blind);
  }

  /** All node processes, including stopped ones. */
  get running(): readonly NodeProcess[] {
    return this.nodes.flatMap(({ process }) => (process === null ? [] : [process]));
  }

  nodeNamed(wanted: string | undefined): ClusterNode | undefined {
    return this.nodes.find(({ name }) => name === wanted);
  }

  ledger(name: string): string {
    return join(this.folder, `${name}.jsonl`);
  }

  /** A ledger server on standard streams. */
  pipe(name: string, more: object = {}): object {
    return ledgerStdio(this.ledger(name), 'stateful', { env: { [MARK]: this.mark }, ...this.#common, ...more });
  }

  /** A client that sends each request to any node. Stops waiting for a node that does not answer in time. */
  client(name: string, era: 'stateful' | 'stateless' = 'stateful'): LedgerClient {
    return this.#client(name, era, this.balancer.route);
  }

  /** A client that sends all requests to one node. */
  clientOf(name: string, node: NodeProcess, era: 'stateful' | 'stateless' = 'stateful'): LedgerClient {
    return this.#client(name, era, () => ({ node: node.name, url: node.mcpUrl }));
  }

  /** A client that sends its requests to an address in front of the nodes. */
  clientAt(name: string, route: Route, era: 'stateful' | 'stateless'): LedgerClient {
    return this.#client(name, era, () => route);
  }

  /** The URL of an HTTP ledger server. */
  url(name: (typeof REMOTES)[number]): string {
    return this.#remotes.get(name)!.url;
  }

  ledgers(): Readonly<Record<string, readonly LedgerEntry[]>> {
    return Object.fromEntries(LEDGERS.map((name) => [name, readLedger(this.ledger(name))]));
  }

  /** Answers to clients that contradict the ledgers, and keys with two owners at one time. */
  violations(evidence: Partial<Evidence> = {}): Violation[] {
    const { timeoutMs, lateMs } = this.options;
    const ledgers = this.ledgers();
    return [
      ...checkLedger({
        // A node that was away owed no answer; `lost` reports the answers that a present node owed.
        attempts: this.history.attempts.map((attempt) => {
          const { ending, via, startedAt, endedAt } = attempt;
          const away = ending === 'LOST' || this.nodeNamed(via)?.awayDuring(startedAt, endedAt ?? startedAt) === true;
          return away ? { ...attempt, abandoned: true } : attempt;
        }),
        ledger: LEDGERS.flatMap((name) => ledgers[name]!),
        repeatable: new Set(),
        deadlineMs: timeoutMs,
        lateMs,
        ...evidence,
      }),
      ...checkOwners(ledgers['own']!, ({ session }) => `own ${session}`),
      ...checkOwners(ledgers['single']!, () => 'single'),
    ];
  }

  /** Calls that got no answer although their node was there all the time. */
  lost(): string[] {
    return this.history.attempts
      .filter(({ ending, abandoned }) => ending === 'LOST' && !abandoned)
      .filter(({ via, startedAt, endedAt }) => this.nodeNamed(via)?.awayDuring(startedAt, endedAt!) === false)
      .map(({ call, tool, via, reason }) => `${call} (${tool}) at ${via}: ${reason}`);
  }

  /**
   * Calls that must not fail according to F28: they need no lease, their node was there, and it answered NOT_SENT or UNKNOWN.
   * Calls that took too long, and calls of sessions that the node could not know, are not counted.
   */
  needless(): string[] {
    return this.history.attempts
      .filter(({ ending, server }) => (ending === 'NOT_SENT' || ending === 'UNKNOWN') && LEASELESS.has(server ?? ''))
      .filter(({ reason, abandoned }) => !abandoned && !EXCUSED.test(reason))
      .filter(({ via, startedAt, endedAt }) => this.nodeNamed(via)?.awayDuring(startedAt, endedAt!) === false)
      .map(({ call, server, via, reason }) => `${call} (${server}) at ${via}: ${reason}`);
  }

  /** Children of the gateways that still run after `waitMs`; none in a healthy run, once the gateways have ended. */
  left(waitMs = 10_000): Promise<number[]> {
    return survivors(this.mark, waitMs);
  }

  async dispose(): Promise<void> {
    this.balancer.close();
    for (const client of this.#clients) client.close();
    await Promise.all(this.nodes.map((node) => node.dispose()));
    for (const remote of this.#remotes.values()) await remote.kill();
    await this.nats[Symbol.asyncDispose]();
    await this.database?.[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #client(name: string, era: 'stateful' | 'stateless', route: () => Route): LedgerClient {
    const { timeoutMs, lateMs } = this.options;
    const patienceMs = timeoutMs + lateMs + 500;
    const client = new LedgerClient({ url: '', era, name, history: this.history, route, patienceMs });
    this.#clients.add(client);
    return client;
  }

  get #common(): object {
    return { timeoutMs: this.options.timeoutMs };
  }

  async #start({ servers = {}, settings = {}, fixedPorts = false }: WorldOptions): Promise<void> {
    const urls: Record<string, object> = {};
    for (const name of REMOTES) {
      const remote = await LedgerHttpProcess.start(this.ledger(name), ERAS[name]);
      this.#remotes.set(name, remote);
      urls[name] = { type: 'http', url: remote.url, ...this.#common };
    }
    const all = {
      ...urls,
      own: this.pipe('own', { isolation: 'session', limits: { maxProcesses: 128 } }),
      single: this.pipe('single', { isolation: 'shared', singleton: true }),
      shared: this.pipe('shared', { isolation: 'shared' }),
      ...servers,
    };
    const store = this.database === null ? {} : { store: this.database.url };
    const cluster = { ...('cluster' in settings ? (settings.cluster as object) : {}), ...store };
    for (let i = 0; i < this.options.nodes; i++) {
      const gate = await TcpGate.start(this.nats.port);
      const name = `n${i + 1}`;
      const options = fixedPorts ? { args: ['--port', String(await freePort())] } : {};
      this.nodes.push(new ClusterNode({ name, gate, servers: all, settings: { ...settings, cluster }, options }));
    }
    await Promise.all(this.nodes.map((node) => node.start()));
    await this.balancer.look();
  }
}
