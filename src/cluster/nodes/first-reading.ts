import type { Clock } from '../../model/clock.ts';
import type { Paced } from '../../model/paced.ts';
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
export class FirstReading {
  /** From then on the node adds no first catalogs of servers that it lists itself. */
  isOver = false;
  readonly #clock: Clock;
  readonly #advertisements: Pick<Advertisements, 'complete' | 'wholeReadings'>;
  readonly #catalogs: Pick<FirstCatalogs, 'idle' | 'readings'>;
  readonly #started = Promise.withResolvers<void>();
  #begunAt = 0;
  /** When data last arrived, and (`#count`) how much had arrived by then. */
  #moreAt = 0;
  #count = 0;
  #updated = false;
  #disarm: () => void = () => {};

  constructor(
    clock: Clock,
    advertisements: Pick<Advertisements, 'complete' | 'wholeReadings'>,
    catalogs: Pick<FirstCatalogs, 'idle' | 'readings'>,
  ) {
    this.#clock = clock;
    this.#advertisements = advertisements;
    this.#catalogs = catalogs;
  }

  /** `updating` is due while the routing table lacks data that was read. */
  begin(updating: Pick<Paced, 'due' | 'run'>): void {
    this.#begunAt = this.#moreAt = this.#clock.now();
    this.#lookLater(updating);
  }

  close(): void {
    this.#disarm();
    this.#end();
  }

  /** Why the node is not ready; null once the reading is over. */
  get lack(): string | null {
    return this.isOver ? null : 'this node reads what the other nodes have';
  }

  /** Resolves when the reading is over, or after 5 s. */
  get started(): Promise<void> {
    return this.#started.promise;
  }

  #lookLater(updating: Pick<Paced, 'due' | 'run'>): void {
    this.#disarm = this.#clock.after(LOOK_MS, () => this.#look(updating));
  }

  #look(updating: Pick<Paced, 'due' | 'run'>): void {
    const now = this.#clock.now();
    const count = this.#advertisements.wholeReadings + this.#catalogs.readings;
    if (count > this.#count) this.#moreAt = now;
    this.#count = count;
    const { complete } = this.#advertisements;
    const quietMs = now - this.#moreAt;
    // Do not wait for the pause of `updating` once all nodes have been read.
    if (complete && updating.due && !this.#updated && now - this.#begunAt >= MEET_MS) {
      this.#updated = true;
      updating.run();
    }
    const isRead = complete && !updating.due && this.#catalogs.idle;
    if (now - this.#begunAt >= START_MS) this.#started.resolve();
    const enough = isRead ? quietMs >= MEET_MS : quietMs >= SILENT_MS || now - this.#begunAt >= MOST_MS;
    if (enough) this.#end();
    else this.#lookLater(updating);
  }

  #end(): void {
    this.isOver = true;
    this.#started.resolve();
  }
}
