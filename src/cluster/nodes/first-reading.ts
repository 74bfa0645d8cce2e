import { type Clock, pause } from '../../model/clock.ts';
import type { Paced } from '../paced.ts';
import type { Advertisements } from './advertisements.ts';
import type { FirstCatalogs } from './first-catalogs.ts';

/** The other nodes answer a node's first heartbeat at once. */
const MEET_MS = 200;
/** Without anything more: another node may not answer. */
const SILENT_MS = 5_000;
const MOST_MS = 30_000;
const LOOK_MS = 20;

/** What a node that starts reads of the others before it is ready: its first lists would lack servers. */
export class FirstReading {
  /** From then on only servers that other nodes alone have are read there. */
  isOver = false;
  readonly #clock: Clock;
  readonly #advertisements: Pick<Advertisements, 'complete' | 'wholeReadings'>;
  readonly #catalogs: Pick<FirstCatalogs, 'idle' | 'readings'>;
  #rebuilding: Pick<Paced, 'due' | 'run'> = { due: true, run: () => {} };
  #begunAt = Number.POSITIVE_INFINITY;
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

  /** `rebuilding`: due while the routing table does not have yet what was read. */
  begin(rebuilding: Pick<Paced, 'due' | 'run'>): void {
    this.#rebuilding = rebuilding;
    this.#begunAt = this.#clock.now();
    this.#awaitMore();
  }

  close(): void {
    this.#disarm();
  }

  /** Why the node is not ready for it; null when it is. */
  get lack(): string | null {
    this.isOver ||= this.#tookMs > MEET_MS && this.#isRead;
    return this.isOver ? null : 'this node reads what the other nodes have';
  }

  /** Resolves when it is over, after at most 5 s. The routing table is built at once when all nodes have been read. */
  async over(): Promise<void> {
    let built = false;
    while (this.lack !== null && this.#tookMs < SILENT_MS) {
      if (!built && this.#tookMs > MEET_MS && this.#advertisements.complete) {
        built = true;
        if (this.#rebuilding.due) this.#rebuilding.run();
      }
      await pause(this.#clock, LOOK_MS);
    }
  }

  get #isRead(): boolean {
    return this.#advertisements.complete && !this.#rebuilding.due && this.#catalogs.idle;
  }

  get #tookMs(): number {
    return this.#clock.now() - this.#begunAt;
  }

  get #count(): number {
    return this.#advertisements.wholeReadings + this.#catalogs.readings;
  }

  #awaitMore(): void {
    const before = this.#count;
    this.#disarm = this.#clock.after(SILENT_MS, () => {
      if (!this.#isRead && this.#count > before && this.#tookMs < MOST_MS) this.#awaitMore();
      else this.isOver = true;
    });
  }
}
