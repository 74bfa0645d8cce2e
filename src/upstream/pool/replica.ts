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
