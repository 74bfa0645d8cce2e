import type { Clock } from '../../model/clock.ts';
import { type ServerState, UP } from '../../model/server-state.ts';
import { isAtRest } from './state-machine.ts';

/** S2.26: how often a remote server that has not come up yet is looked for, and for how long. */
const EVERY_MS = 500;
const FOR_MS = 30_000;

interface ReadinessWatchDeps {
  readonly clock: Clock;
  /** Whether somebody listens at its address. Never rejects. */
  readonly reachable: () => Promise<boolean>;
  /** Makes an attempt before its time; nothing where one was made a moment ago. */
  readonly attempt: () => void;
}

/**
 * A remote server that is registered is often just being started itself. Until it was up for the first time, and for
 * 30 s at the most, its address is looked at beside the attempts of its supervisor, so that it is there a moment after
 * it listens. Looking costs a connection and counts as nothing.
 */
export class ReadinessWatch {
  readonly #deps: ReadinessWatchDeps;
  #state: ServerState = 'unknown';
  /** Monotonic; null before the first start, and again after a stop. */
  #until: number | null = null;
  #over = false;
  #disarm: (() => void) | null = null;

  constructor(deps: ReadinessWatchDeps) {
    this.#deps = deps;
  }

  moved(to: ServerState): void {
    this.#state = to;
    if (UP.has(to)) this.#over = true;
    if (this.#over || isAtRest(to) || to === 'stopping' || to === 'auth_required' || to === 'defect') this.#end();
    else if (to === 'starting') this.#until ??= this.#deps.clock.now() + FOR_MS;
    else if (to === 'failed' && this.#disarm === null) this.#look();
  }

  #look(): void {
    const { clock } = this.#deps;
    if (this.#until === null || clock.now() + EVERY_MS > this.#until) return;
    this.#disarm = clock.after(EVERY_MS, () => {
      this.#disarm = null;
      void this.#tick();
    });
  }

  async #tick(): Promise<void> {
    const { reachable, attempt } = this.#deps;
    const until = this.#until;
    if (this.#state === 'failed' && (await reachable()) && this.#state === 'failed') attempt();
    if (!this.#over && this.#until === until && this.#disarm === null) this.#look();
  }

  #end(): void {
    this.#disarm?.();
    this.#disarm = null;
    this.#until = null;
  }
}
