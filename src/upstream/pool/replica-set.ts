import type { ClientProfile } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Era } from '../../model/message.ts';
import type { StateLoss } from '../../model/ports.ts';
import type { Random } from '../../model/random.ts';
import type { RecoveryStep, ReplicaStatus } from '../../model/server-state.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Connection } from '../connection/connection.ts';
import { replicaKey, type Wanted } from '../connection/session-key.ts';
import { Supervisor } from '../supervision/supervisor.ts';
import { Affinity, holderOf, isFailing, Replica } from './replica.ts';
import type { SessionPool } from './session-pool.ts';

interface RollingRestartDeps {
  readonly server: string;
  readonly replicas: () => readonly Replica[];
  readonly serves: (replica: Replica) => boolean;
  /** Places no calls on it any more; resolves when it has none. */
  readonly quiet: (replica: Replica) => Promise<void>;
  /** It begins and ends. Must not throw. */
  readonly recovery: (step: RecoveryStep, reason: string | null) => void;
}

/**
 * Restarts replicas one after the other, so that at each moment one serves: what does not serve anyway comes first, and
 * the next follows only when the one before is up again. One that does not come back ends it, and leaves the rest as
 * they are. Asking for one while one is under way joins it.
 */
class RollingRestart {
  readonly #deps: RollingRestartDeps;
  #running: Promise<void> | null = null;
  /** Raised by every end from outside, so that what was begun before it starts nothing any more. */
  #generation = 0;

  constructor(deps: RollingRestartDeps) {
    this.#deps = deps;
  }

  restart(): Promise<void> {
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  /** The replicas are being stopped: nothing more is restarted. */
  cancel(): void {
    this.#generation++;
  }

  async #run(): Promise<void> {
    const { recovery } = this.#deps;
    recovery('started', null);
    const failure = await this.#roll();
    if (failure === null) recovery('succeeded', null);
    else recovery('failed', failure);
  }

  /** Why it came to nothing; null when all are up again. */
  async #roll(): Promise<string | null> {
    const { server, replicas, serves, quiet } = this.#deps;
    const generation = this.#generation;
    const all = replicas();
    const order = [...all.filter((one) => !serves(one)), ...all.filter(serves)];
    for (const replica of order) {
      // There may be fewer by now, or none that serve.
      if (!replicas().includes(replica)) continue;
      if (serves(replica)) {
        if (!replicas().some((other) => other !== replica && serves(other))) {
          return `replica ${replica.number} of ${server} is the only one that serves, and goes on`;
        }
        await quiet(replica);
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
}

/** What stands for itself, so that it may go anywhere; all else may be meant to be found again. */
const SPREAD = new Set(['tools/call', 'prompts/get', 'resources/read', 'completion/complete']);

export interface ReplicaSetDeps {
  readonly server: string;
  readonly era: Era;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly times: { readonly startupMs: number };
  /** What is in flight on a replica that is restarted or goes gets so long to finish. */
  readonly drainMs: number;
  readonly profile: ClientProfile;
  readonly pool: Pick<SessionPool, 'ready' | 'acquire' | 'release'>;
  /** What is observed of them has changed. Must not throw. */
  readonly changed: () => void;
  /** The session had talked to a replica of this era that is gone. Must not throw. */
  readonly stateLost: (sessionId: string, era: Era, cause: StateLoss) => void;
  /** A connection that is ended by us, whose users may want another. Must not throw. */
  readonly ended: (key: string) => void;
  readonly recovery: (step: RecoveryStep, reason: string | null) => void;
}

/**
 * The replicas of one server, in one era: which of them a call goes to, and that as many run as should. Each has a
 * supervisor of its own, so that one which crashes again and again is backed off while the others serve. When none
 * serves any more the server's supervisor takes over, and this set rests until it has brought one back.
 */
export class ReplicaSet {
  readonly #deps: ReplicaSetDeps;
  readonly #affinity = new Affinity();
  readonly #rolling: RollingRestart;
  #replicas: Replica[] = [];
  /** Where goes what may be meant to be found again, of clients that nothing is known by. */
  #home: Replica | null = null;
  #wanted = 0;
  #resizing = false;
  /** Of equals the next one is taken. */
  #turn = 0;

  constructor(count: number, deps: ReplicaSetDeps) {
    this.#deps = deps;
    this.#rolling = new RollingRestart({
      server: deps.server,
      replicas: () => this.#replicas,
      serves: (replica) => this.#ready(replica) !== null,
      quiet: (replica) => this.#quiet(replica),
      recovery: deps.recovery,
    });
    this.resize(count);
  }

  /** What is wanted for this client: its own replica, or the one with least to do. `method` is '' where nothing is sent. */
  wanted(client: ClientProfile, method: string): Wanted {
    const { era, profile } = this.#deps;
    const { key, number } = this.#placed(client, method);
    return { era, key, tenancy: { kind: 'shared', replica: number }, profile };
  }

  keyOf(client: ClientProfile, method: string): string {
    return this.#placed(client, method).key;
  }

  get count(): number {
    return this.#replicas.length;
  }

  /** One that calls can be sent on now, whichever. */
  any(): Connection | null {
    for (const replica of this.#replicas) {
      const connection = this.#ready(replica);
      if (connection !== null) return connection;
    }
    return null;
  }

  /** One of them serves: the others are started, but for those that wait for their next attempt. */
  begin(): void {
    for (const { supervisor } of this.#replicas) if (supervisor.state !== 'failed') void supervisor.start();
  }

  /** The server is stopped, or none of them serves any more. */
  async halt(): Promise<void> {
    this.#rolling.cancel();
    this.forsake('restarted');
    await Promise.all(this.#replicas.map(({ supervisor }) => supervisor.stop()));
  }

  /** Nobody keeps to any of them any more; who had talked to one is told why. */
  forsake(cause: StateLoss): void {
    for (const replica of this.#replicas) this.#unbind(replica, cause);
  }

  /**
   * The connection under this key ended by itself, or was given up. Whether that is made up for here: not where it is
   * none of ours, or the last that served. `answered`: it had served well before.
   */
  crashed(key: string, error: GatewayError, answered: boolean): boolean {
    const replica = this.#replicas.find((one) => one.key === key);
    if (replica === undefined) return false;
    this.#unbind(replica);
    if (this.any() === null) {
      void this.halt();
      return false;
    }
    if (answered) replica.supervisor.proved();
    replica.supervisor.crashed(error);
    return true;
  }

  /** Changes how many there are. Those that go finish what they have, and only then come others in their place. */
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
    while (this.#replicas.length < this.#wanted) this.#replicas.push(this.#replica(this.#replicas.length + 1));
    if (this.any() !== null) this.begin();
  }

  /** One after the other. Resolves when all have been, or one did not come back. */
  restart(): Promise<void> {
    return this.#rolling.restart();
  }

  release(sessionId: string): void {
    this.#affinity.release(sessionId);
  }

  /** None before one of them was started. */
  statuses(): ReplicaStatus[] {
    if (this.#replicas.every(({ supervisor }) => supervisor.state === 'unknown')) return [];
    const { era, pool } = this.#deps;
    return this.#replicas.map((replica) => replica.status(era, pool.ready(replica.key)));
  }

  #placed(client: ClientProfile, method: string): Replica {
    const holder = holderOf(client);
    if (holder === null) return SPREAD.has(method) ? (this.#least() ?? this.#instanceNow()) : this.#instanceNow();
    const talks = method !== '';
    const known = this.#affinity.of(holder, talks);
    if (known !== null && this.#ready(known) !== null) return known;
    const replica = this.#least();
    // Nobody keeps to what does not serve.
    if (replica === null) return known ?? this.#replicas[0]!;
    this.#affinity.bind(holder, client.sessionId, replica, talks);
    return replica;
  }

  #instanceNow(): Replica {
    if (this.#home === null || this.#ready(this.#home) === null) {
      this.#home = this.#replicas.find((replica) => this.#ready(replica) !== null) ?? this.#replicas[0]!;
    }
    return this.#home;
  }

  #ready(replica: Replica): Connection | null {
    return replica.leaving ? null : this.#deps.pool.ready(replica.key);
  }

  /** The healthy one with the fewest calls in flight, of equals the one that fewest keep to; null where none serves. */
  #least(): Replica | null {
    let least: Replica | null = null;
    let load = Number.POSITIVE_INFINITY;
    const count = this.#replicas.length;
    this.#turn = (this.#turn + 1) % count;
    for (let i = 0; i < count; i++) {
      const replica = this.#replicas[(this.#turn + i) % count]!;
      const connection = this.#ready(replica);
      if (connection === null) continue;
      const present = loadOf(connection);
      if (present > load || (present === load && replica.bound >= least!.bound)) continue;
      least = replica;
      load = present;
    }
    return least;
  }

  /** Takes no calls any more, and has none: those who keep to it are told, and go elsewhere. */
  async #quiet(replica: Replica): Promise<void> {
    replica.leaving = true;
    this.#unbind(replica);
    await this.#deps.pool.ready(replica.key)?.drained(this.#deps.drainMs);
  }

  /** There are to be fewer. */
  async #dismiss(replica: Replica): Promise<void> {
    await this.#quiet(replica);
    await replica.supervisor.stop();
    this.#deps.changed();
  }

  #unbind(replica: Replica, cause: StateLoss = 'restarted'): void {
    const { era, stateLost } = this.#deps;
    for (const sessionId of this.#affinity.releaseAll(replica)) stateLost(sessionId, era, cause);
  }

  #replica(number: number): Replica {
    const { server, era, profile, clock, random, logger, pool, times, changed, ended } = this.#deps;
    const key = replicaKey(era, number);
    const supervisor = new Supervisor({
      server: `${server} replica ${number}`,
      local: true,
      clock,
      random,
      times,
      launch: async (attempt) => {
        attempt.undoBy(() => void pool.release(key));
        await pool.acquire({ era, key, tenancy: { kind: 'shared', replica: number }, profile }, attempt);
        attempt.undoBy(null);
      },
      halt: async () => {
        const closed = pool.release(key);
        if (closed === null) return;
        ended(key);
        await closed;
      },
      moved: ({ to, from, reason, failure }) => {
        logger.info('replica_state', { replica: number, state: to, before: from, reason, failure });
        changed();
      },
    });
    return new Replica(number, key, supervisor);
  }
}

/** Calls in flight; what is unwell, or has a question open that any call could be meant by, comes after all others. */
function loadOf(connection: Connection): number {
  if (isFailing(connection)) return connection.load + 2e9;
  return connection.engaged ? connection.load + 1e9 : connection.load;
}
