import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import { type Health, type ReplicaStatus, UP } from '../../model/server-state.ts';
import type { Connection } from '../connection/connection.ts';
import { FAILURES_TILL_UNHEALTHY } from '../health/server-health.ts';
import type { Supervisor } from '../supervision/supervisor.ts';

/** One of several processes that share the calls of a server, as calls are placed on it. */
export class Replica {
  /** From 1. */
  readonly number: number;
  readonly key: string;
  readonly supervisor: Supervisor;
  /** It is to be restarted or to go, and takes no calls any more. */
  leaving = false;
  /** Sessions and handles that keep to it. */
  bound = 0;

  constructor(number: number, key: string, supervisor: Supervisor) {
    this.number = number;
    this.key = key;
    this.supervisor = supervisor;
  }

  status(era: Era, connection: Connection | null): ReplicaStatus {
    const { supervisor } = this;
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

/** Its last calls failed: others are asked first. */
export function isFailing({ use }: Connection): boolean {
  return use.consecutiveErrors >= FAILURES_TILL_UNHEALTHY;
}

function healthOf({ state, failing }: Supervisor, connection: Connection | null): Health {
  if (UP.has(state) && connection !== null) return isFailing(connection) ? 'unhealthy' : 'healthy';
  return failing || state === 'degraded' ? 'unhealthy' : 'unknown';
}

/** Sessions and handles that are remembered; beyond that the one that sent nothing for longest is bound anew. */
const MAX_BOUND = 65_536;

interface Binding {
  readonly replica: Replica;
  /** null for a handle. */
  readonly sessionId: string | null;
  /** It has talked to the replica, which may keep something for it. */
  talked: boolean;
}

/**
 * Who keeps to which replica: client sessions, and clients without one that name themselves by a handle. Anybody else
 * has nothing by which a second call could be told to be of the same client.
 */
export class Affinity {
  readonly #bindings = new Map<string, Binding>();

  /** Where the holder keeps to; null for nowhere yet. */
  of(holder: string, talks: boolean): Replica | null {
    const binding = this.#bindings.get(holder);
    if (binding === undefined) return null;
    if (talks) {
      binding.talked = true;
      this.#bindings.delete(holder);
      this.#bindings.set(holder, binding);
    }
    return binding.replica;
  }

  bind(holder: string, sessionId: string | null, replica: Replica, talks: boolean): void {
    this.release(holder);
    if (this.#bindings.size >= MAX_BOUND) this.release(this.#bindings.keys().next().value!);
    this.#bindings.set(holder, { replica, sessionId, talked: talks });
    replica.bound++;
  }

  release(holder: string): void {
    const binding = this.#bindings.get(holder);
    if (binding === undefined) return;
    this.#bindings.delete(holder);
    binding.replica.bound--;
  }

  /** The replica has ended, or is about to: nobody keeps to it any more. The sessions that had talked to it. */
  releaseAll(replica: Replica): string[] {
    const talked: string[] = [];
    for (const [holder, { replica: one, sessionId, talked: hasTalked }] of this.#bindings) {
      if (one !== replica) continue;
      this.release(holder);
      if (hasTalked && sessionId !== null) talked.push(sessionId);
    }
    return talked;
  }
}

/** By what the client is known again; null for nothing. */
export function holderOf({ sessionId, handle, principal }: ClientProfile): string | null {
  if (sessionId !== null) return sessionId;
  return handle === null ? null : `${principal.id} ${handle}`;
}
