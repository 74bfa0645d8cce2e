import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import { type Health, type ReplicaStatus, UP } from '../../model/server-state.ts';
import type { Attempt } from '../connection/attempt.ts';
import type { Connection } from '../connection/connection.ts';
import { replicaKey, type WantedConnection } from '../connection/session-key.ts';
import { FAILURES_TILL_UNHEALTHY } from '../health/server-health.ts';
import type { ServerContext } from '../server-context.ts';
import type { Supervised, Transition } from '../supervision/state-machine.ts';
import { Supervisor } from '../supervision/supervisor.ts';
import type { SessionPool } from './session-pool.ts';

/** One of several processes that share the calls of one server, with its own supervisor. */
export class Replica implements Supervised {
  /** Starts at 1. */
  readonly number: number;
  readonly era: Era;
  readonly key: string;
  readonly supervisor: Supervisor;
  readonly #context: ServerContext;
  readonly #pool: SessionPool;
  /** The replica is about to be restarted or removed and takes no calls. */
  leaving = false;
  /** Number of sessions and handles bound to it. */
  bound = 0;

  constructor(number: number, era: Era, context: ServerContext, pool: SessionPool) {
    this.number = number;
    this.era = era;
    this.key = replicaKey(era, number);
    this.#context = context;
    this.#pool = pool;
    const { deps, times } = context;
    const { clock, random, ownership } = deps;
    this.supervisor = new Supervisor(
      { server: `${context.name} replica ${number}`, local: true, clock, random, times, ownership },
      this,
    );
  }

  /** Its connection if calls can be sent on it now. */
  get connection(): Connection | null {
    return this.#pool.ready(this.key);
  }

  /** The connection that the replica needs. */
  get wanted(): WantedConnection {
    const { era, key, number } = this;
    return { era, key, tenancy: { kind: 'shared', replica: number }, profile: this.#context.placeholderProfile };
  }

  async launch(attempt: Attempt): Promise<void> {
    attempt.setUndo(() => void this.#pool.release(this.key));
    await this.#pool.acquire(this.wanted, attempt);
    attempt.setUndo(null);
  }

  async halt(): Promise<void> {
    const closed = this.#pool.release(this.key);
    if (closed === null) return;
    this.#context.events.ended(this.key);
    await closed;
  }

  moved({ to, from, reason, failure }: Transition): void {
    this.#context.logger.info('replica_state', { replica: this.number, state: to, before: from, reason, failure });
    this.#context.events.changed();
  }

  status(): ReplicaStatus {
    const { supervisor, era, connection } = this;
    return {
      replica: this.number,
      era,
      state: supervisor.state,
      health: healthOf(supervisor, connection),
      reason: supervisor.reason ?? (connection !== null && isFailing(connection) ? connection.use.lastError : null),
      pid: connection?.pid ?? null,
      inFlight: connection?.inFlight ?? 0,
      bound: this.bound,
      restarts: supervisor.restarts,
      consecutiveFailures: supervisor.consecutiveFailures,
      nextRetryAt: supervisor.nextRetryAt,
    };
  }
}

/** Whether its last calls failed: other replicas are preferred. */
export function isFailing({ use }: Connection): boolean {
  return use.consecutiveErrors >= FAILURES_TILL_UNHEALTHY;
}

function healthOf({ state, failing }: Supervisor, connection: Connection | null): Health {
  if (UP.has(state) && connection !== null) return isFailing(connection) ? 'unhealthy' : 'healthy';
  return failing || state === 'degraded' ? 'unhealthy' : 'unknown';
}

/** Maximum of bindings; above it the least recently used one is dropped. */
const MAX_BOUND = 65_536;

interface Binding {
  readonly replica: Replica;
  /** null for a client with a handle. */
  readonly sessionId: string | null;
  /** It sent requests to the replica, which may hold state for it. */
  hasSentRequests: boolean;
}

/** Binds each session, and each client with a handle, to a replica. Other clients cannot be recognised. */
export class Affinity {
  readonly #bindings = new Map<string, Binding>();

  /** The replica that the holder is bound to; null if none. */
  of(holder: string, talks: boolean): Replica | null {
    const binding = this.#bindings.get(holder);
    if (binding === undefined) return null;
    if (talks) {
      binding.hasSentRequests = true;
      this.#bindings.delete(holder);
      this.#bindings.set(holder, binding);
    }
    return binding.replica;
  }

  bind(holder: string, sessionId: string | null, replica: Replica, talks: boolean): void {
    this.release(holder);
    if (this.#bindings.size >= MAX_BOUND) this.release(this.#bindings.keys().next().value!);
    this.#bindings.set(holder, { replica, sessionId, hasSentRequests: talks });
    replica.bound++;
  }

  release(holder: string): void {
    const binding = this.#bindings.get(holder);
    if (binding === undefined) return;
    this.#bindings.delete(holder);
    binding.replica.bound--;
  }

  /** The replica has ended or will: removes its bindings. Returns the sessions that had sent requests to it. */
  releaseAll(replica: Replica): string[] {
    const usedSessions: string[] = [];
    for (const [holder, { replica: one, sessionId, hasSentRequests }] of this.#bindings) {
      if (one !== replica) continue;
      this.release(holder);
      if (hasSentRequests && sessionId !== null) usedSessions.push(sessionId);
    }
    return usedSessions;
  }
}

/** The key that identifies a client for its binding; null if it has none. */
export function affinityKeyOf({ sessionId, handle, principal }: ClientProfile): string | null {
  if (sessionId !== null) return sessionId;
  return handle === null ? null : `${principal.id} ${handle}`;
}
