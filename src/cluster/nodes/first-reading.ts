import type { Clock } from '../../model/clock.ts';
import type { Paced } from '../../model/paced.ts';
import type { Advertisements } from './advertisements.ts';
import type { FirstCatalogs } from './first-catalogs.ts';

/** The other nodes answer a node's first heartbeat at once. */
const MEET_MS = 200;
/** Without anything more: another node may not answer. */
const SILENT_MS = 5_000;
const MOST_MS = 30_000;
/** The node's own servers are started by then. */
const START_MS = 5_000;
const LOOK_MS = 20;

/** What a node that starts reads of the others before it is ready: its first lists would lack servers. */
export class FirstReading {
  /** From then on only servers that other nodes alone have are read there. */
  isOver = false;
  readonly #clock: Clock;
  readonly #advertisements: Pick<Advertisements, 'complete' | 'wholeReadings'>;
  readonly #catalogs: Pick<FirstCatalogs, 'idle' | 'readings'>;
  readonly #started = Promise.withResolvers<void>();
  #begunAt = 0;
  /** When the last of it came, and how much had come by then. */
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

  /** `updating`: due while the routing table does not have yet what was read. */
  begin(updating: Pick<Paced, 'due' | 'run'>): void {
    this.#begunAt = this.#moreAt = this.#clock.now();
    this.#lookLater(updating);
  }

  close(): void {
    this.#disarm();
    this.#end();
  }

  /** Why the node is not ready for it; null when it is. */
  get lack(): string | null {
    return this.isOver ? null : 'this node reads what the other nodes have';
  }

  /** Resolves when it is over, after at most 5 s. */
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
    // Not after a pause, once all nodes have been read.
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
