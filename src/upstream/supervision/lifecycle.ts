import type { ServerState } from '../../model/server-state.ts';

/**
 * Which state may follow which (S3.20). `running` is a local process, `connected` a remote server; `stopped` and
 * `disconnected` are what they are after a stop. `degraded` was up and is being brought back; `failed` waits for its
 * next attempt, `unreachable` for a long one. `defect` waits for a restart,
 * `misconfigured` for another definition, which is another upstream.
 */
const MOVES: Readonly<Record<ServerState, readonly ServerState[]>> = {
  unknown: ['starting', 'stopped', 'disconnected', 'suspended', 'misconfigured', 'defect'],
  starting: ['running', 'connected', 'failed', 'unreachable', 'auth_required', 'stopping', 'defect'],
  running: ['degraded', 'stopping', 'auth_required', 'defect'],
  connected: ['degraded', 'stopping', 'auth_required', 'defect'],
  degraded: ['starting', 'stopping', 'failed', 'unreachable', 'defect'],
  failed: ['starting', 'stopping', 'defect'],
  unreachable: ['starting', 'stopping', 'defect'],
  auth_required: ['starting', 'stopping', 'defect'],
  defect: ['stopping'],
  stopping: ['stopped', 'disconnected', 'suspended'],
  stopped: ['starting', 'suspended', 'misconfigured', 'defect'],
  disconnected: ['starting', 'suspended', 'misconfigured', 'defect'],
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
