import type { ServerState } from '../model/server-state.ts';

/**
 * Which state may follow which (S3.20). `running` is a local process, `connected` a remote server. `degraded` and
 * `disconnected` were up and are being brought back; `failed` waits for its next attempt, `unreachable` for a long one.
 */
const MOVES: Readonly<Record<ServerState, readonly ServerState[]>> = {
  unknown: ['starting', 'stopping', 'stopped', 'suspended'],
  starting: ['running', 'connected', 'failed', 'unreachable', 'auth_required', 'stopping'],
  running: ['degraded', 'starting', 'stopping', 'failed', 'auth_required'],
  connected: ['disconnected', 'degraded', 'starting', 'stopping', 'failed', 'unreachable', 'auth_required'],
  degraded: ['starting', 'running', 'connected', 'stopping', 'failed', 'unreachable', 'auth_required'],
  disconnected: ['starting', 'connected', 'stopping', 'failed', 'unreachable', 'auth_required'],
  failed: ['starting', 'stopping'],
  unreachable: ['starting', 'stopping'],
  auth_required: ['starting', 'stopping'],
  stopping: ['stopped', 'suspended'],
  stopped: ['starting', 'stopping', 'suspended'],
  suspended: ['starting', 'stopping', 'stopped'],
};

export function mayFollow(from: ServerState, to: ServerState): boolean {
  return MOVES[from].includes(to);
}

export function isUp(state: ServerState): boolean {
  return state === 'running' || state === 'connected';
}
