import type { Clock } from '../../model/clock.ts';
import type { ThrottledTask } from '../../model/throttled-task.ts';
import type { Advertisements } from './advertisements.ts';
import type { FirstCatalogs } from './first-catalogs.ts';

/** Other nodes answer a node's first heartbeat within this time. */
const MEET_MS = 200;
/** The reading ends after this long without new data, because another node may not answer. */
const SILENT_MS = 5_000;
const MOST_MS = 30_000;
/** The node's own servers are started after this long at the latest. */
const START_MS = 5_000;
const LOOK_MS = 20;

/** What a starting node reads from other nodes before it is ready; otherwise its first lists would lack servers. */
export class InitialSync {
  /** From then on the node adds no first catalogs of servers that it lists itself. */
  isOver = false;
  readonly #clock: Clock;
  readonly #advertisements: Pick<Advertisements, 'complete' | 'completeReadings'>;
  readonly #catalogs: Pick<FirstCatalogs, 'idle' | 'readings'>;
  readonly #started = Promise.withResolvers<void>();
  #startedAt = 0;
  /** When data last arrived, and (`#count`) how much had arrived by then. */
  #moreAt = 0;
  #count = 0;
  #updated = false;
  #disarm: () => void = () => {};

  constructor(
    clock: Clock,
    advertisements: Pick<Advertisements, 'complete' | 'completeReadings'>,
    catalogs: Pick<FirstCatalogs, 'idle' | 'readings'>,
  ) {
    this.#clock = clock;
    this.#advertisements = advertisements;
    this.#catalogs = catalogs;
  }

  /** `updating` is pending while the routing table lacks data that was read. */
  begin(updating: Pick<ThrottledTask, 'pending' | 'run'>): void {
    this.#startedAt = this.#moreAt = this.#clock.now();
    this.#scheduleCheck(updating);
  }

  close(): void {
    this.#disarm();
    this.#end();
  }

  /** Why the node is not ready; null once the reading is over. */
  get notReady(): string | null {
    return this.isOver ? null : 'this node reads what the other nodes have';
  }

  /** Resolves when the reading is over, or after 5 s. */
  get started(): Promise<void> {
    return this.#started.promise;
  }

  #scheduleCheck(updating: Pick<ThrottledTask, 'pending' | 'run'>): void {
    this.#disarm = this.#clock.after(LOOK_MS, () => this.#check(updating));
  }

  #check(updating: Pick<ThrottledTask, 'pending' | 'run'>): void {
    const now = this.#clock.now();
    const count = this.#advertisements.completeReadings + this.#catalogs.readings;
    if (count > this.#count) this.#moreAt = now;
    this.#count = count;
    const { complete } = this.#advertisements;
    const quietMs = now - this.#moreAt;
    // Do not wait for the pause of `updating` once all nodes have been read.
    if (complete && updating.pending && !this.#updated && now - this.#startedAt >= MEET_MS) {
      this.#updated = true;
      updating.run();
    }
    const isRead = complete && !updating.pending && this.#catalogs.idle;
    if (now - this.#startedAt >= START_MS) this.#started.resolve();
    const enough = isRead ? quietMs >= MEET_MS : quietMs >= SILENT_MS || now - this.#startedAt >= MOST_MS;
    if (enough) this.#end();
    else this.#scheduleCheck(updating);
  }

  #end(): void {
    this.isOver = true;
    this.#started.resolve();
  }
}
