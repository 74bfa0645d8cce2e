import { collectGarbage, type MemoryLevel, memoryLevel } from '../../model/pooled-buffers.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { groupShareReader, heapShare } from './memory-limit.ts';

export interface MemoryWatchOptions {
  readonly logger: Logger;
  /** Empties caches; called with each sample while memory is scarce. */
  readonly shrink: () => void;
  readonly heapShare?: () => number;
  /** Null if only the heap has a limit. */
  readonly groupShare?: (() => number) | null;
  readonly collect?: () => void;
  readonly now?: () => number;
}

const SAMPLE_MS = 250;
/** `refresh` returns a reading of this age without another one. */
const FRESH_MS = 10;
const COLLECT_EVERY_MS = 10_000;
/** The largest share of the time for garbage collection. */
const COLLECT_SHARE = 0.02;

/**
 * Measures how scarce memory is (F40), in the heap or the control group, whichever is worse. The heap includes garbage: a
 * reading above `ample` collects it first, at most every 10 s. In between, readings are too high rather than too low.
 */
export class MemoryWatch {
  readonly #options: Required<MemoryWatchOptions>;
  readonly #timer: NodeJS.Timeout;
  #level: MemoryLevel = 'ample';
  #share = 0;
  #group = 0;
  #measuredAt = Number.NEGATIVE_INFINITY;
  #mayCollectAt = Number.NEGATIVE_INFINITY;

  constructor(options: MemoryWatchOptions) {
    this.#options = {
      heapShare,
      groupShare: groupShareReader(),
      collect: collectGarbage,
      now: () => performance.now(),
      ...options,
    };
    this.#timer = setInterval(() => this.sample(), SAMPLE_MS);
    this.#timer.unref();
  }

  /** The level of the last reading. */
  get level(): MemoryLevel {
    return this.#level;
  }

  /** The used share: 0 to 1, more in the reserve of the heap. */
  get share(): number {
    return this.#share;
  }

  /** Reads the heap again, unless the last reading is fresh; the control group is as of the last sample. */
  refresh(): MemoryLevel {
    if (this.#options.now() - this.#measuredAt >= FRESH_MS) this.#measure();
    return this.#level;
  }

  sample(): void {
    this.#group = this.#readGroup();
    this.#measure();
    if (this.#level === 'scarce' || this.#level === 'spent') this.#options.shrink();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #measure(): void {
    let heap = this.#options.heapShare();
    const now = this.#options.now();
    if (memoryLevel(heap) !== 'ample' && now >= this.#mayCollectAt) {
      this.#options.collect();
      const tookMs = this.#options.now() - now;
      this.#mayCollectAt = now + Math.max(COLLECT_EVERY_MS, tookMs / COLLECT_SHARE);
      heap = this.#options.heapShare();
    }
    this.#measuredAt = this.#options.now();
    this.#share = Math.max(heap, this.#group);
    const level = memoryLevel(this.#share);
    if (level === this.#level) return;
    this.#level = level;
    const fields = { memory: level, heap: percent(heap), group: percent(this.#group) };
    if (level === 'ample') this.#options.logger.info('memory_ample', fields);
    else this.#options.logger.warn('memory_short', fields);
  }

  #readGroup(): number {
    try {
      return this.#options.groupShare?.() ?? 0;
    } catch {
      return 0;
    }
  }
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}
