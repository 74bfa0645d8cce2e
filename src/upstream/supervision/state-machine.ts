import type { Clock } from '../../model/clock.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { RecoveryStep, ServerState } from '../../model/server-state.ts';
import type { Attempt } from '../connection/attempt.ts';
import { type FailureClass, failureClass } from '../health/failure-class.ts';

/**
 * Allowed state transitions (S3.20). `running` and `stopped` apply to local servers, `connected` and `disconnected` to remote
 * ones. `degraded` was up and is being restarted; `failed` waits for its next attempt, `unreachable` for one after a long
 * delay, `defect` for a restart, `misconfigured` for a corrected definition.
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
  suspended: ['unknown', 'starting', 'stopped', 'disconnected', 'misconfigured'],
  misconfigured: ['stopped', 'disconnected', 'suspended'],
};

export function canTransition(from: ServerState, to: ServerState): boolean {
  return MOVES[from].includes(to);
}

const AT_REST: ReadonlySet<ServerState> = new Set(['unknown', 'stopped', 'disconnected', 'suspended', 'misconfigured']);

/** Nothing runs, and nothing is planned. */
export function isAtRest(state: ServerState): boolean {
  return AT_REST.has(state);
}

/** A state transition with its cause. */
export interface Transition {
  readonly from: ServerState;
  readonly to: ServerState;
  /** As text; null for a normal transition. */
  readonly reason: string | null;
  readonly failure: FailureClass | null;
  /** The error behind `reason` and `failure`. */
  readonly error: GatewayError | null;
  /** Wall clock. */
  readonly at: number;
}

/** What a supervisor starts and stops: a server, or one of its replicas. */
export interface Supervised {
  /** The state has changed. Called once per transition. Must not throw. */
  moved(transition: Transition): void;
  /** Starts it. Rejects with GatewayError; leaves nothing behind if the attempt is cancelled. */
  launch(attempt: Attempt): Promise<void>;
  /** Closes all its connections. Must not reject. */
  halt(): Promise<void>;
  /** It requires credentials; called before the state becomes `auth_required` (S3.5). Must not throw. */
  beforeAuthRequired?(error: GatewayError): void;
  /** A requested restart begins or ends (S3.10). `reason`: why it failed. Must not throw. */
  recovery?(step: RecoveryStep, reason: string | null): void;
}

/**
 * The state of one server and the only way to change it. A transition that the table does not allow throws. The listener gets
 * each transition once and in order: one that it causes itself is reported after the current one.
 */
export class StateMachine {
  readonly #server: string;
  readonly #clock: Clock;
  readonly #listener: Pick<Supervised, 'moved'>;
  readonly #unreported: Transition[] = [];
  #reporting = false;
  state: ServerState = 'unknown';
  /** The cause of the current state; null if there is no problem. */
  error: GatewayError | null = null;

  constructor(server: string, clock: Clock, listener: Pick<Supervised, 'moved'>) {
    this.#server = server;
    this.#clock = clock;
    this.#listener = listener;
  }

  /** Throws if the table does not allow the transition; then nothing has changed. */
  move(to: ServerState, error: GatewayError | null = this.error): void {
    const from = this.state;
    if (from !== to && !canTransition(from, to)) throw new Error(`${this.#server}: no way from ${from} to ${to}`);
    this.error = error;
    if (from === to) return;
    this.state = to;
    const failure = error === null ? null : failureClass(error);
    this.#unreported.push({ from, to, reason: error?.message ?? null, failure, error, at: this.#clock.wall() });
    if (this.#reporting) return;
    this.#reporting = true;
    try {
      while (this.#unreported.length > 0) this.#listener.moved(this.#unreported.shift()!);
    } finally {
      this.#reporting = false;
    }
  }
}
