import type { Clock } from '../../model/clock.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { RecoveryStep, ServerState } from '../../model/server-state.ts';
import type { Attempt } from '../connection/attempt.ts';
import { type FailureClass, failureClass } from '../health/failure-class.ts';

/**
 * Which state may follow which (S3.20). `running` and `stopped` are of a local process, `connected` and `disconnected` of a
 * remote server. `degraded` was up and is being brought back; `failed` waits for its next attempt, `unreachable` for a
 * long one, `defect` for a restart, `misconfigured` for another definition.
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

export function mayFollow(from: ServerState, to: ServerState): boolean {
  return MOVES[from].includes(to);
}

const AT_REST: ReadonlySet<ServerState> = new Set(['unknown', 'stopped', 'disconnected', 'suspended', 'misconfigured']);

/** Nothing of it runs, and nothing is planned. */
export function isAtRest(state: ServerState): boolean {
  return AT_REST.has(state);
}

/** One step of a server from a state to another, with why it was taken. */
export interface Transition {
  readonly from: ServerState;
  readonly to: ServerState;
  /** In words; null where it is the usual course of things. */
  readonly reason: string | null;
  readonly failure: FailureClass | null;
  /** What `reason` and `failure` say of. */
  readonly error: GatewayError | null;
  /** Wall clock. */
  readonly at: number;
}

/** What a supervisor starts and stops: a server, or one of its replicas. */
export interface Supervised {
  /** The state has changed, and with it what is counted. Called once per step. Must not throw. */
  moved(transition: Transition): void;
  /** Brings it up. Rejects with GatewayError; leaves nothing behind when the attempt is cancelled. */
  launch(attempt: Attempt): Promise<void>;
  /** Ends all its connections. Must not reject. */
  halt(): Promise<void>;
  /** It asks for credentials; called before the state becomes `auth_required` (S3.5). Must not throw. */
  beforeAuthRequired?(error: GatewayError): void;
  /** A restart that was asked for begins and ends (S3.10). `reason` says why it failed. Must not throw. */
  recovery?(step: RecoveryStep, reason: string | null): void;
}

/**
 * The state of one server and the only way to change it. A step that the table does not have is refused. The listener
 * gets each step once and in order: one that it takes itself is reported after the present one.
 */
export class StateMachine {
  readonly #server: string;
  readonly #clock: Clock;
  readonly #listener: Pick<Supervised, 'moved'>;
  readonly #unreported: Transition[] = [];
  #reporting = false;
  state: ServerState = 'unknown';
  /** What led to the present state, or still weighs in it; null where all is well. */
  error: GatewayError | null = null;

  constructor(server: string, clock: Clock, listener: Pick<Supervised, 'moved'>) {
    this.#server = server;
    this.#clock = clock;
    this.#listener = listener;
  }

  /** Throws where the table knows no such step; then nothing has changed. */
  move(to: ServerState, error: GatewayError | null = this.error): void {
    const from = this.state;
    if (from !== to && !mayFollow(from, to)) throw new Error(`${this.#server}: no way from ${from} to ${to}`);
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
