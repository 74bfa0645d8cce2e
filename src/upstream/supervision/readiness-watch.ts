import type { Clock } from '../../model/clock.ts';
import { type ServerState, UP } from '../../model/server-state.ts';
import { isAtRest } from './state-machine.ts';
import type { Supervisor } from './supervisor.ts';

/** S2.26: how often, and for how long, to check for a remote server that has not come up yet. */
const EVERY_MS = 500;
const FOR_MS = 30_000;

/**
 * A newly registered remote server is often still starting. Until it was up once, for at most 30 s, its address is checked in
 * addition to the supervisor's attempts. A check costs a connection and does not count as an attempt.
 */
export class ReadinessWatch {
  readonly #clock: Clock;
  readonly #supervisor: Supervisor;
  readonly #reachable: () => Promise<boolean>;
  /** Monotonic end of the checks; null before the first start and after a stop. */
  #until: number | null = null;
  #over = false;
  #disarm: (() => void) | null = null;

  /** `reachable`: whether something listens at the server's address; never rejects. */
  constructor(clock: Clock, supervisor: Supervisor, reachable: () => Promise<boolean>) {
    this.#clock = clock;
    this.#supervisor = supervisor;
    this.#reachable = reachable;
  }

  moved(to: ServerState): void {
    if (UP.has(to)) this.#over = true;
    if (this.#over || isAtRest(to) || to === 'stopping' || to === 'auth_required' || to === 'defect') this.#end();
    else if (to === 'starting') this.#until ??= this.#clock.now() + FOR_MS;
    else if (to === 'failed' && this.#disarm === null) this.#look();
  }

  #look(): void {
    if (this.#until === null || this.#clock.now() + EVERY_MS > this.#until) return;
    this.#disarm = this.#clock.after(EVERY_MS, () => {
      this.#disarm = null;
      void this.#tick();
    });
  }

  async #tick(): Promise<void> {
    const until = this.#until;
    const failed = (): boolean => this.#supervisor.state === 'failed';
    if (failed() && (await this.#reachable()) && failed()) {
      // The supervisor starts none if its last early attempt was too recent.
      void this.#supervisor.ready().catch(() => {});
    }
    if (!this.#over && this.#until === until && this.#disarm === null) this.#look();
  }

  #end(): void {
    this.#disarm?.();
    this.#disarm = null;
    this.#until = null;
  }
}
