import type { ServerState } from '../../model/server-state.ts';

/**
 * Which state may follow which (S3.20). `running` is a local process, `connected` a remote server; `stopped` and
 * `disconnected` are what they are after a stop. `degraded` was up and is being brought back; `failed` waits for its
 * next attempt, `unreachable` for a long one. `misconfigured` waits for another definition, which is another upstream.
 */
const MOVES: Readonly<Record<ServerState, readonly ServerState[]>> = {
  unknown: ['starting', 'stopped', 'disconnected', 'suspended', 'misconfigured'],
  starting: ['running', 'connected', 'failed', 'unreachable', 'auth_required', 'stopping'],
  running: ['degraded', 'stopping', 'auth_required'],
  connected: ['degraded', 'stopping', 'auth_required'],
  degraded: ['starting', 'stopping', 'failed', 'unreachable'],
  failed: ['starting', 'stopping'],
  unreachable: ['starting', 'stopping'],
  auth_required: ['starting', 'stopping'],
  stopping: ['stopped', 'disconnected', 'suspended'],
  stopped: ['starting', 'suspended', 'misconfigured'],
  disconnected: ['starting', 'suspended', 'misconfigured'],
  suspended: ['starting', 'stopped', 'disconnected', 'misconfigured'],
  misconfigured: ['stopped', 'disconnected', 'suspended'],
};

export function mayFollow(from: ServerState, to: ServerState): boolean {
  return MOVES[from].includes(to);
}

const AT_REST: ReadonlySet<ServerState> = new Set(['unknown', 'stopped', 'disconnected', 'suspended', 'misconfigured']);

/** Nothing of it runs, and nothing is planned. */
export function isAtRest(state: ServerState): boolean {
  return AT_REST.has(state);
}
