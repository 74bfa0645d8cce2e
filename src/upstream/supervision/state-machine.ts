import type { Clock } from '../../model/clock.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { ServerState } from '../../model/server-state.ts';
import { type FailureClass, failureClass } from '../health/failure-class.ts';
import { mayFollow } from './lifecycle.ts';

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

export interface StateMachineDeps {
  readonly server: string;
  readonly clock: Clock;
  /** Told once per step. Must not throw. */
  readonly moved: (transition: Transition) => void;
}

/**
 * The state of one server and the only way to change it. A step that the table does not have is refused, one that
 * leads nowhere is none, and whoever listens hears of each step once and in order: a step taken by a listener is told
 * when the present one has been.
 */
export class StateMachine {
  readonly #deps: StateMachineDeps;
  readonly #untold: Transition[] = [];
  #telling = false;
  #state: ServerState = 'unknown';
  #error: GatewayError | null = null;

  constructor(deps: StateMachineDeps) {
    this.#deps = deps;
  }

  get state(): ServerState {
    return this.#state;
  }

  /** What led to the present state, or still weighs in it; null where all is well. */
  get error(): GatewayError | null {
    return this.#error;
  }

  /** Throws where the table knows no such step; then nothing has changed. */
  move(to: ServerState, error: GatewayError | null = this.#error): void {
    const { server, clock } = this.#deps;
    const from = this.#state;
    if (from !== to && !mayFollow(from, to)) throw new Error(`${server}: no way from ${from} to ${to}`);
    this.#error = error;
    if (from === to) return;
    this.#state = to;
    const failure = error === null ? null : failureClass(error);
    this.#untold.push({ from, to, reason: error?.message ?? null, failure, error, at: clock.wall() });
    this.#tell();
  }

  #tell(): void {
    if (this.#telling) return;
    this.#telling = true;
    try {
      for (let next = this.#untold.shift(); next !== undefined; next = this.#untold.shift()) this.#deps.moved(next);
    } finally {
      this.#telling = false;
    }
  }
}
