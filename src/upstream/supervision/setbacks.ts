import type { Clock } from '../../model/clock.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Random } from '../../model/random.ts';
import { failureClass } from '../health/failure-class.ts';
import { restartDelayMs, UNREACHABLE_THRESHOLD } from './restart-delay.ts';

export interface SetbacksDeps {
  readonly local: boolean;
  readonly clock: Clock;
  readonly random: Random;
}

/** What went wrong with one server since it last proved itself, and when it is tried again because of it. */
export class Setbacks {
  readonly #deps: SetbacksDeps;
  /** Failed starts and early deaths in a row. */
  #inRow = 0;
  /** Those of them that may be over with the next attempt (S3.8). */
  #failures = 0;
  #nextAt: number | null = null;
  #disarm: (() => void) | null = null;

  constructor(deps: SetbacksDeps) {
    this.#deps = deps;
  }

  get any(): boolean {
    return this.#inRow > 0;
  }

  get failures(): number {
    return this.#failures;
  }

  /** A remote server that failed so often is not waited for. */
  get unreachable(): boolean {
    return !this.#deps.local && this.#failures >= UNREACHABLE_THRESHOLD;
  }

  /** Monotonic time of the next attempt; null when none is planned. */
  get nextAt(): number | null {
    return this.#nextAt;
  }

  /** Our own abort says nothing of the server, and our own limits are no failure of its. */
  count(error: GatewayError): void {
    const found = failureClass(error);
    if (found === 'abort') return;
    this.#inRow++;
    if (found === 'transient' && error.code !== 'OVERLOADED') this.#failures++;
  }

  forgive(): void {
    this.#inRow = 0;
    this.#failures = 0;
  }

  /** An attempt by the curve; one that is planned already stays. */
  plan(attempt: () => void): void {
    if (this.#disarm !== null) return;
    const { clock, local, random } = this.#deps;
    const delayMs = restartDelayMs(Math.max(1, this.#inRow), local, random.unit());
    this.#nextAt = clock.now() + delayMs;
    this.#disarm = clock.after(delayMs, () => {
      this.#disarm = null;
      this.#nextAt = null;
      attempt();
    });
  }

  cancel(): void {
    this.#disarm?.();
    this.#disarm = null;
    this.#nextAt = null;
  }
}
