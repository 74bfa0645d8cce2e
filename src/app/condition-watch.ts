import type { ConditionName } from '../model/conditions.ts';
import type { Reconciler } from '../registry/reconciler.ts';
import type { StoreFollower } from '../registry/store-follower.ts';
import type { Components } from './components.ts';
import { percent } from './memory/memory-watch.ts';

const CHECK_INTERVAL_MS = 2_000;
/** A server that recovers sooner is not reported: retries are expected. */
const DOWN_MS = 60_000;
const NEAR = 0.9;
/** Servers whose definitions one check examines, in turn; examining all of them at once would take long. */
const SERVERS_PER_CHECK = 20;
const RETRIED: ReadonlySet<string> = new Set(['failed', 'unreachable']);
const STUCK: ReadonlySet<string> = new Set(['misconfigured', 'defect']);

interface Condition {
  readonly name: ConditionName;
  /** Null for the gateway itself. */
  readonly server: string | null;
  readonly reason: string;
}

type Watched = Pick<
  Components,
  | 'clock'
  | 'allUpstreams'
  | 'upstreams'
  | 'registry'
  | 'gateway'
  | 'cluster'
  | 'connection'
  | 'memory'
  | 'downstream'
  | 'records'
  | 'stateFile'
  | 'serverEvents'
>;

/**
 * Reports when conditions that need an operator begin and end. It checks levels every two seconds instead of following
 * events, so a lost event cannot leave a condition in place.
 */
export class ConditionWatch {
  readonly #watched: Watched;
  readonly #reconciler: Pick<Reconciler, 'alarms'>;
  /** Null if the node shares no store. */
  readonly #store: Pick<StoreFollower, 'problem'> | null;
  /** The conditions that hold, by name and server. */
  readonly #held = new Map<string, Condition>();
  /** Monotonic time since when servers that are retried are down. */
  readonly #downSince = new Map<string, number>();
  /** Number of withheld definitions at the last check of each server; only servers with some. */
  readonly #withheld = new Map<string, number>();
  #turn = 0;
  #cancel: () => void = () => {};

  constructor(watched: Watched, reconciler: Pick<Reconciler, 'alarms'>, store: Pick<StoreFollower, 'problem'> | null) {
    this.#watched = watched;
    this.#reconciler = reconciler;
    this.#store = store;
  }

  start(): void {
    this.#cancel = this.#watched.clock.after(CHECK_INTERVAL_MS, () => {
      this.check();
      this.start();
    });
  }

  close(): void {
    this.#cancel();
  }

  /** The conditions that held at the last check. */
  get held(): readonly Condition[] {
    return [...this.#held.values()];
  }

  check(): void {
    const { serverEvents } = this.#watched;
    const now = new Map([...this.#present()].map((one) => [`${one.name} ${one.server ?? ''}`, one]));
    for (const [key, { name, server }] of this.#held) {
      if (now.has(key)) continue;
      this.#held.delete(key);
      serverEvents.condition(name, server, null);
    }
    for (const [key, one] of now) {
      if (!this.#held.has(key)) serverEvents.condition(one.name, one.server, one.reason);
      this.#held.set(key, one);
    }
  }

  *#present(): Iterable<Condition> {
    yield* this.#servers();
    yield* this.#nodes();
    const { stateFile, memory, upstreams, downstream, registry, records } = this.#watched;
    const own = (name: ConditionName, reason: string): Condition => ({ name, server: null, reason });
    const unread = this.#store?.problem ?? null;
    if (unread !== null) yield own('store_unreachable', `the store of the cluster cannot be read: ${unread}`);
    const { alarms } = this.#reconciler;
    if (alarms.length > 0) yield own('configuration_unreadable', alarms.join('; '));
    if (!stateFile.writable) yield own('disk_not_writable', 'the data folder cannot be written');
    if (memory.share >= NEAR) yield own('memory_short', `${percent(memory.share)} of the memory is in use`);
    const { running, limit } = upstreams.processes;
    if (running >= NEAR * limit) yield own('processes_near_limit', `${running} of ${limit} processes (maxProcesses)`);
    const { census } = records;
    // In a cluster the local table is a cache of the sessions of all nodes.
    const open = census?.count(null) ?? downstream.sessions.size;
    const max = registry.state.sessions.max * (census?.nodes ?? 1);
    if (open >= NEAR * max) yield own('sessions_near_limit', `${open} of ${max} sessions (sessions.max)`);
  }

  *#servers(): Iterable<Condition> {
    const { allUpstreams, registry, clock } = this.#watched;
    const { servers } = registry.state;
    for (const server of this.#downSince.keys()) if (!servers.has(server)) this.#downSince.delete(server);
    this.#checkDrift(servers);
    for (const server of servers.keys()) {
      const state = allUpstreams.state(server) ?? 'unknown';
      if (!RETRIED.has(state)) this.#downSince.delete(server);
      else if (!this.#downSince.has(server)) this.#downSince.set(server, clock.now());
      const sinceMs = clock.now() - (this.#downSince.get(server) ?? Number.POSITIVE_INFINITY);
      if (STUCK.has(state) || sinceMs >= DOWN_MS) yield { name: 'server_down', server, reason: `it is ${state}` };
      if (state === 'auth_required') yield { name: 'login_needed', server, reason: 'it asks for a sign-in' };
    }
    for (const [server, withheld] of this.#withheld) {
      yield { name: 'drift_blocked', server, reason: `${withheld} definitions wait for approval and are withheld` };
    }
  }

  #checkDrift(servers: ReadonlyMap<string, unknown>): void {
    for (const server of this.#withheld.keys()) if (!servers.has(server)) this.#withheld.delete(server);
    const names = [...servers.keys()];
    const { drift } = this.#watched.gateway;
    for (let i = 0; i < Math.min(SERVERS_PER_CHECK, names.length); i++) {
      const server = names[this.#turn++ % names.length]!;
      const { withheld } = drift.summary(server);
      if (withheld > 0) this.#withheld.set(server, withheld);
      else this.#withheld.delete(server);
    }
  }

  *#nodes(): Iterable<Condition> {
    const { cluster, connection } = this.#watched;
    if (cluster === null || connection === null) return;
    const { state, lastError } = connection.bus.status;
    if (state !== 'connected') {
      yield { name: 'bus_lost', server: null, reason: lastError ?? 'the bus of the cluster cannot be reached' };
      return;
    }
    const gone = [...cluster.peers.silent.keys()];
    if (gone.length > 0) yield { name: 'node_lost', server: null, reason: `gone without leaving: ${gone.join(', ')}` };
  }
}
