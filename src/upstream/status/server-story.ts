import type { ServerNews } from '../../model/ports.ts';
import type { ServerState, StateChange } from '../../model/server-state.ts';

const MAX_CHANGES = 50;

/** The last state change of one upstream of a server. */
export class StoryPart {
  state: ServerState = 'unknown';
  reason: string | null = null;
}

/** The state history of a server over its upstreams: only changes of the current one are reported. */
export class ServerStory {
  readonly #server: string;
  readonly #news: ServerNews | null;
  readonly #changes: StateChange[] = [];
  #current: StoryPart | null = null;

  constructor(server: string, news: ServerNews | null) {
    this.#server = server;
    this.#news = news;
  }

  /** The last changes, oldest first. */
  get changes(): readonly StateChange[] {
    return [...this.#changes];
  }

  moved(part: StoryPart, change: StateChange): void {
    part.state = change.to;
    part.reason = change.reason;
    if (part === this.#current) this.#tell(change);
  }

  healthTurned(part: StoryPart, reason: string | null): void {
    if (part === this.#current) this.#news?.healthTurned(this.#server, reason);
  }

  /** Makes this part the current one. `at`: wall clock. */
  turnTo(part: StoryPart, at: number): void {
    const before = this.#current;
    if (before === part) return;
    this.#current = part;
    if (before === null) {
      this.#news?.added(this.#server);
      return;
    }
    this.#news?.replaced(this.#server);
    if (before.state === part.state) return;
    const why = 'its definition has changed';
    const reason = part.reason === null ? why : `${why}; ${part.reason}`;
    this.#tell({ from: before.state, to: part.state, reason, failure: null, challenge: null, at });
  }

  /** The server was removed. */
  end(): void {
    this.#current = null;
    this.#news?.removed(this.#server);
  }

  #tell(change: StateChange): void {
    this.#changes.push(change);
    if (this.#changes.length > MAX_CHANGES) this.#changes.shift();
    this.#news?.moved(this.#server, change);
  }
}
