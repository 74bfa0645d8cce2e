import type { Clock } from '../../model/clock.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import type { Upstreams } from '../../model/ports.ts';

/** By then the other nodes have said what they have. */
const HEARD_MS = 60_000;

/** The names of the servers there should be, at all nodes. */
export class DesiredNames {
  readonly #own: { readonly state: Pick<DesiredState, 'servers'> };
  readonly #clock: Clock;
  readonly #since: number;
  #everywhere: Pick<Upstreams, 'servers'> | null = null;

  constructor(own: { readonly state: Pick<DesiredState, 'servers'> }, clock: Clock) {
    this.#own = own;
    this.#clock = clock;
    this.#since = clock.now();
  }

  /** Joins it with the servers of the cluster. */
  attach(everywhere: Pick<Upstreams, 'servers'>): void {
    this.#everywhere = everywhere;
  }

  /** Null while that cannot be known yet. */
  get names(): ReadonlySet<string> | null {
    const own = this.#own.state.servers.keys();
    if (this.#everywhere === null) return new Set(own);
    if (this.#clock.now() - this.#since < HEARD_MS) return null;
    return new Set([...own, ...this.#everywhere.servers().map(({ name }) => name)]);
  }
}
