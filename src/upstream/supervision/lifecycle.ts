import type { ServerState } from '../../model/server-state.ts';

/**
 * Which state may follow which (S3.20). `running` is a local process, `connected` a remote server; `stopped` and
 * `disconnected` are what they are after a stop. `degraded` was up and is being brought back; `failed` waits for its
 * next attempt, `unreachable` for a long one.
 */
const MOVES: Readonly<Record<ServerState, readonly ServerState[]>> = {
  unknown: ['starting', 'stopped', 'disconnected', 'suspended'],
  starting: ['running', 'connected', 'failed', 'unreachable', 'auth_required', 'stopping'],
  running: ['degraded', 'stopping', 'auth_required'],
  connected: ['degraded', 'stopping', 'auth_required'],
  degraded: ['starting', 'stopping', 'failed', 'unreachable'],
  failed: ['starting', 'stopping'],
  unreachable: ['starting', 'stopping'],
  auth_required: ['starting', 'stopping'],
  stopping: ['stopped', 'disconnected', 'suspended'],
  stopped: ['starting', 'suspended'],
  disconnected: ['starting', 'suspended'],
  suspended: ['starting', 'stopped', 'disconnected'],
};

export function mayFollow(from: ServerState, to: ServerState): boolean {
  return MOVES[from].includes(to);
}

/** Nothing of it runs, and nothing is planned. */
export function isAtRest(state: ServerState): boolean {
  return state === 'unknown' || state === 'stopped' || state === 'disconnected' || state === 'suspended';
}
