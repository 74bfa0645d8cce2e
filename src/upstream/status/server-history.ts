import type { ServerChangeListener } from '../../model/ports.ts';
import type { ServerState, StateChange } from '../../model/server-state.ts';

const MAX_CHANGES = 50;

/** The last state change of one upstream of a server. */
export class LastState {
  state: ServerState = 'unknown';
  reason: string | null = null;
}

/** The state history of a server over its upstreams: only changes of the current one are reported. */
export class ServerHistory {
  readonly #server: string;
  readonly #listener: ServerChangeListener | null;
  readonly #changes: StateChange[] = [];
  #current: LastState | null = null;

  constructor(server: string, listener: ServerChangeListener | null) {
    this.#server = server;
    this.#listener = listener;
  }

  /** The last changes, oldest first. */
  get changes(): readonly StateChange[] {
    return [...this.#changes];
  }

  stateChanged(state: LastState, change: StateChange): void {
    state.state = change.to;
    state.reason = change.reason;
    if (state === this.#current) this.#notify(change);
  }

  healthChanged(state: LastState, reason: string | null): void {
    if (state === this.#current) this.#listener?.healthChanged(this.#server, reason);
  }

  /** Makes this part the current one. `at`: wall clock. */
  setCurrent(state: LastState, at: number): void {
    const before = this.#current;
    if (before === state) return;
    this.#current = state;
    if (before === null) {
      this.#listener?.added(this.#server);
      return;
    }
    this.#listener?.replaced(this.#server);
    if (before.state === state.state) return;
    const why = 'its definition has changed';
    const reason = state.reason === null ? why : `${why}; ${state.reason}`;
    this.#notify({ from: before.state, to: state.state, reason, failure: null, challenge: null, at });
  }

  /** The server was removed. */
  end(): void {
    this.#current = null;
    this.#listener?.removed(this.#server);
  }

  #notify(change: StateChange): void {
    this.#changes.push(change);
    if (this.#changes.length > MAX_CHANGES) this.#changes.shift();
    this.#listener?.stateChanged(this.#server, change);
  }
}
