import type { RecoveryStep } from '../../model/server-state.ts';
import type { Replica } from './replica.ts';

export interface RollingRestartDeps {
  readonly server: string;
  readonly replicas: () => readonly Replica[];
  readonly serves: (replica: Replica) => boolean;
  /** Places no calls on it any more; resolves when it has none. */
  readonly quiet: (replica: Replica) => Promise<void>;
  /** It begins and ends. Must not throw. */
  readonly recovery: (step: RecoveryStep, reason: string | null) => void;
}

/**
 * Restarts replicas one after the other, so that at each moment one serves: what does not serve anyway comes first, and
 * the next follows only when the one before is up again. One that does not come back ends it, and leaves the rest as
 * they are. Asking for one while one is under way joins it.
 */
export class RollingRestart {
  readonly #deps: RollingRestartDeps;
  #running: Promise<void> | null = null;
  /** Raised by every end from outside, so that what was begun before it starts nothing any more. */
  #generation = 0;

  constructor(deps: RollingRestartDeps) {
    this.#deps = deps;
  }

  restart(): Promise<void> {
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  /** The replicas are being stopped: nothing more is restarted. */
  cancel(): void {
    this.#generation++;
  }

  async #run(): Promise<void> {
    const { recovery } = this.#deps;
    recovery('started', null);
    const failure = await this.#roll();
    if (failure === null) recovery('succeeded', null);
    else recovery('failed', failure);
  }

  /** Why it came to nothing; null when all are up again. */
  async #roll(): Promise<string | null> {
    const { server, replicas, serves, quiet } = this.#deps;
    const generation = this.#generation;
    const all = replicas();
    const order = [...all.filter((one) => !serves(one)), ...all.filter(serves)];
    for (const replica of order) {
      // There may be fewer by now, or none that serve.
      if (!replicas().includes(replica)) continue;
      if (serves(replica)) {
        if (!replicas().some((other) => other !== replica && serves(other))) {
          return `replica ${replica.number} of ${server} is the only one that serves, and goes on`;
        }
        await quiet(replica);
        if (generation !== this.#generation) {
          replica.leaving = false;
          return `the replicas of ${server} were stopped meanwhile`;
        }
      }
      const { supervisor } = replica;
      await supervisor.restart();
      replica.leaving = false;
      if (!supervisor.up) return `replica ${replica.number} of ${server} is ${supervisor.state}: ${supervisor.reason}`;
    }
    return null;
  }
}
