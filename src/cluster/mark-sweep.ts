import type { ClusterDeps } from './cluster-deps.ts';
import type { LazyBucket } from './lazy-bucket.ts';

const EVERY_MS = 10 * 60_000;

interface MarkSweepDeps extends Pick<ClusterDeps, 'bus' | 'clock' | 'logger'> {
  readonly others: () => readonly string[];
}

/** Removes what a bucket keeps of deleted records, earlier than it expires: the node with the first name does. */
export class MarkSweep {
  readonly #deps: MarkSweepDeps;
  readonly #bucket: Pick<LazyBucket, 'name' | 'forgetMarks'>;
  readonly #keptMs: number;
  #stop: () => void;

  constructor(deps: MarkSweepDeps, bucket: Pick<LazyBucket, 'name' | 'forgetMarks'>, keptMs: number) {
    this.#deps = deps;
    this.#bucket = bucket;
    this.#keptMs = keptMs;
    this.#stop = this.#later();
  }

  close(): void {
    this.#stop();
    this.#stop = () => {};
  }

  #later(): () => void {
    return this.#deps.clock.after(EVERY_MS, () => void this.#run());
  }

  async #run(): Promise<void> {
    const { bus, logger, others } = this.#deps;
    const stop = this.#stop;
    try {
      if (!others().some((peer) => peer < bus.peer)) {
        const marks = await this.#bucket.forgetMarks(this.#keptMs);
        if (marks > 0) logger.debug('deletion_marks_forgotten', { bucket: this.#bucket.name, marks });
      }
    } catch (error) {
      logger.debug('deletion_marks_not_forgotten', { bucket: this.#bucket.name, error: String(error) });
    }
    // Not closed meanwhile.
    if (this.#stop === stop) this.#stop = this.#later();
  }
}
