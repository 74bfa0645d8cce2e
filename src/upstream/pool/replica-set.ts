import { type ClientProfile, isolationOf } from '../../model/client-profile.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Era } from '../../model/message.ts';
import type { StateLoss } from '../../model/ports.ts';
import type { ReplicaStatus } from '../../model/server-state.ts';
import type { Connection } from '../connection/connection.ts';
import { replicaKey, type WantedConnection } from '../connection/session-key.ts';
import type { ServerContext } from '../server-context.ts';
import { Affinity, affinityKeyOf, isFailing, Replica } from './replica.ts';
import type { SessionPool } from './session-pool.ts';

/** Self-contained requests, which any replica can serve; others may refer to earlier ones. */
const SPREAD = new Set(['tools/call', 'prompts/get', 'resources/read', 'completion/complete']);

/**
 * The replicas of one server in one era: assigns calls to them and keeps the wanted number running. Each has its own
 * supervisor; when none is up any more, the server's supervisor takes over.
 */
export class ReplicaSet {
  readonly #era: Era;
  readonly #context: ServerContext;
  readonly #pool: SessionPool;
  readonly #affinity = new Affinity();
  #restarting: Promise<void> | null = null;
  /** Incremented when the replicas are stopped: an earlier rolling restart then ends. */
  #generation = 0;
  #replicas: Replica[] = [];
  /** The replica for requests that may refer to earlier ones, from clients that cannot be recognised. */
  #preferred: Replica | null = null;
  #wanted = 0;
  #resizing = false;
  /** Rotates the choice among equally loaded replicas. */
  #next = 0;

  constructor(era: Era, context: ServerContext, pool: SessionPool) {
    this.#era = era;
    this.#context = context;
    this.#pool = pool;
    this.resize(context.server.replicas ?? 1);
  }

  get count(): number {
    return this.#replicas.length;
  }

  /** The connection of any replica that calls can be sent on now. */
  any(): Connection | null {
    return this.#replicas.map((replica) => this.#ready(replica)).find((connection) => connection !== null) ?? null;
  }

  /** One replica is up: starts the others, except those that wait for their next attempt. */
  begin(): void {
    for (const { supervisor } of this.#replicas) if (supervisor.state !== 'failed') void supervisor.start();
  }

  /** The server was stopped, or no replica is up any more. */
  async halt(): Promise<void> {
    this.#generation++;
    this.abandonCalls('restarted');
    await Promise.all(this.#replicas.map(({ supervisor }) => supervisor.stop()));
  }

  /** Removes all bindings; sessions that had sent requests are notified with this cause. */
  abandonCalls(cause: StateLoss): void {
    for (const replica of this.#replicas) this.#unbind(replica, cause);
  }

  /** Handles a replica's crash; false if it was the last one that was up, so that the server's supervisor must handle it. */
  crashed(key: string, error: GatewayError, answered: boolean): boolean {
    const replica = this.#replicas.find((one) => one.key === key);
    if (replica === undefined) return false;
    this.#unbind(replica);
    if (this.any() === null) {
      void this.halt();
      return false;
    }
    if (answered) replica.supervisor.markHealthy();
    replica.supervisor.crashed(error);
    return true;
  }

  /** Changes the number of replicas. Removed ones finish their calls before new ones take their place. */
  resize(count: number): void {
    this.#wanted = count;
    if (!this.#resizing) void this.#resize();
  }

  async #resize(): Promise<void> {
    this.#resizing = true;
    while (this.#replicas.length > this.#wanted) {
      await Promise.all(this.#replicas.splice(this.#wanted).map((replica) => this.#dismiss(replica)));
    }
    this.#resizing = false;
    while (this.#replicas.length < this.#wanted) {
      this.#replicas.push(new Replica(this.#replicas.length + 1, this.#era, this.#context, this.#pool));
    }
    if (this.any() !== null) this.begin();
  }

  /**
   * Rolling restart: one replica after the other, those that are up last, each after the one before is up. It ends early if a
   * replica does not come up. A second request joins the first.
   */
  restart(): Promise<void> {
    this.#restarting ??= this.#roll().finally(() => {
      this.#restarting = null;
    });
    return this.#restarting;
  }

  async #roll(): Promise<void> {
    this.#context.events.recovery('started', null);
    const failure = await this.#restartEach();
    this.#context.events.recovery(failure === null ? 'succeeded' : 'failed', failure);
  }

  /** Why the rolling restart ended early; null if all replicas are up again. */
  async #restartEach(): Promise<string | null> {
    const server = this.#context.name;
    const generation = this.#generation;
    const serves = (replica: Replica): boolean => this.#ready(replica) !== null;
    const order = [...this.#replicas.filter((one) => !serves(one)), ...this.#replicas.filter(serves)];
    for (const replica of order) {
      // The replica may have been removed meanwhile.
      if (!this.#replicas.includes(replica)) continue;
      if (serves(replica)) {
        if (!this.#replicas.some((other) => other !== replica && serves(other))) {
          return `replica ${replica.number} of ${server} is the only one that serves, and goes on`;
        }
        await this.#drain(replica);
        if (generation !== this.#generation) {
          replica.leaving = false;
          return `the replicas of ${server} were stopped meanwhile`;
        }
      }
      const { supervisor } = replica;
      await supervisor.restart();
      replica.leaving = false;
      if (!supervisor.up) return `replica ${replica.number} of ${server} is ${supervisor.state}: ${supervisor.reason}`;
    }
    return null;
  }

  release(sessionId: string): void {
    this.#affinity.release(sessionId);
  }

  /** Empty before the first replica was started. */
  statuses(): ReplicaStatus[] {
    if (this.#replicas.every(({ supervisor }) => supervisor.state === 'unknown')) return [];
    return this.#replicas.map((replica) => replica.status());
  }

  /** The replica that serves this client: the one it is bound to, or the least loaded one. `method`: '' if nothing is sent. */
  replicaFor(client: ClientProfile, method: string): Replica {
    const holder = affinityKeyOf(client);
    if (holder === null)
      return SPREAD.has(method) ? (this.#least() ?? this.#currentPreferred()) : this.#currentPreferred();
    const talks = method !== '';
    const known = this.#affinity.of(holder, talks);
    if (known !== null && this.#ready(known) !== null) return known;
    const replica = this.#least();
    // A client is not bound to a replica that is not up.
    if (replica === null) return known ?? this.#replicas[0]!;
    this.#affinity.bind(holder, client.sessionId, replica, talks);
    return replica;
  }

  #currentPreferred(): Replica {
    if (this.#preferred === null || this.#ready(this.#preferred) === null) {
      this.#preferred = this.#replicas.find((replica) => this.#ready(replica) !== null) ?? this.#replicas[0]!;
    }
    return this.#preferred;
  }

  #ready(replica: Replica): Connection | null {
    return replica.leaving ? null : replica.connection;
  }

  /** The healthy replica with the fewest calls in flight, then with the fewest bindings; null if none is up. */
  #least(): Replica | null {
    let least: Replica | null = null;
    let load = Number.POSITIVE_INFINITY;
    const count = this.#replicas.length;
    this.#next = (this.#next + 1) % count;
    for (let i = 0; i < count; i++) {
      const replica = this.#replicas[(this.#next + i) % count]!;
      const connection = this.#ready(replica);
      if (connection === null) continue;
      const present = loadOf(connection);
      if (present > load || (present === load && replica.bound >= least!.bound)) continue;
      least = replica;
      load = present;
    }
    return least;
  }

  /** Stops new calls, removes the bindings with a notification of their sessions, and waits for calls in flight. */
  async #drain(replica: Replica): Promise<void> {
    replica.leaving = true;
    this.#unbind(replica);
    await replica.connection?.drained(this.#context.times.drainMs);
  }

  /** Removes a replica. */
  async #dismiss(replica: Replica): Promise<void> {
    await this.#drain(replica);
    await replica.supervisor.stop();
    this.#context.events.changed();
  }

  #unbind(replica: Replica, cause: StateLoss = 'restarted'): void {
    const usedSessions = this.#affinity.releaseAll(replica);
    // A stateless server holds no state for a session.
    if (this.#era !== 'stateful') return;
    const { deps, name } = this.#context;
    for (const sessionId of usedSessions) deps.events.stateLost(name, sessionId, cause);
  }
}

/** Calls in flight; failing replicas, and those with an open server request that any call could belong to, come last. */
function loadOf(connection: Connection): number {
  if (isFailing(connection)) return connection.load + 2e9;
  return connection.engaged ? connection.load + 1e9 : connection.load;
}

const ERAS: readonly Era[] = ['stateful', 'stateless'];

/** The replica sets of a shared server by era, created when needed; none if one process is enough. */
export class Replicas {
  readonly #context: ServerContext;
  readonly #pool: SessionPool;
  readonly #sets = new Map<Era, ReplicaSet>();

  constructor(context: ServerContext, pool: SessionPool) {
    this.#context = context;
    this.#pool = pool;
  }

  /** null if one connection serves all clients. */
  of(era: Era): ReplicaSet | null {
    const known = this.#sets.get(era);
    if (known !== undefined) return known;
    const { server } = this.#context;
    const { replicas = 1 } = server;
    if (replicas === 1 || isolationOf(server, era) !== 'shared') return null;
    const set = new ReplicaSet(era, this.#context, this.#pool);
    this.#sets.set(era, set);
    return set;
  }

  /** The definition has changed. */
  update(): void {
    for (const set of this.#sets.values()) set.resize(this.#context.server.replicas ?? 1);
    for (const era of ERAS) if (this.#pool.ready(replicaKey(era, 1)) !== null) this.of(era);
  }

  /** A connection was assigned: if it belongs to a replica set, the other replicas are started. */
  opened({ tenancy }: WantedConnection, era: Era): void {
    if (tenancy.kind === 'shared') this.of(era)?.begin();
  }

  /** Handles a replica's crash; see `ReplicaSet.crashed`. */
  crashed({ key, tenancy }: WantedConnection, era: Era, error: GatewayError, answered: boolean): boolean {
    return tenancy.kind === 'shared' && this.#sets.get(era)?.crashed(key, error, answered) === true;
  }

  /** null if there are not several replicas of which one is up. */
  restart(): Promise<void> | null {
    const serving = [...this.#sets.values()].filter((set) => set.any() !== null && set.count > 1);
    if (serving.length === 0) return null;
    return Promise.all(serving.map((set) => set.restart())).then(() => {});
  }

  abandonCalls(cause: StateLoss): void {
    for (const set of this.#sets.values()) set.abandonCalls(cause);
  }

  async halt(): Promise<void> {
    await Promise.all([...this.#sets.values()].map((set) => set.halt()));
  }

  release(sessionId: string): void {
    for (const set of this.#sets.values()) set.release(sessionId);
  }

  statuses(): ReplicaStatus[] {
    return [...this.#sets.values()].flatMap((set) => set.statuses());
  }
}
