import type { Bucket, StateRecord } from '../bus/shared-state.ts';
import { chunks } from '../model/chunks.ts';
import type { ClusterDeps } from './cluster-deps.ts';

/** Long, because nodes with the other secret may still write; the node restarted last finds the remaining records. */
const LOOK_MS = 600_000;
const RETRY_MS = 10_000;
const MAX_READS = 32;

interface ResealingDeps extends Pick<ClusterDeps, 'sealing' | 'clock' | 'logger'> {
  readonly bucket: Bucket;
  /** Returns the new value as text; null if the record is not sealed with a previous secret. */
  readonly reseal: (record: StateRecord) => string | null;
}

/**
 * During a secret rotation, reseals all records with the current secret, and logs when none of a previous secret is left. Nodes
 * with different current secrets undo each other's work, but all of them can read the records.
 */
export class Resealing {
  readonly #deps: ResealingDeps;
  #logged = false;
  #stop: () => void = () => {};
  #closed = false;

  constructor(deps: ResealingDeps) {
    this.#deps = deps;
    if (deps.sealing.outdated !== undefined) this.#stop = deps.clock.after(0, () => void this.#look());
  }

  close(): void {
    this.#closed = true;
    this.#stop();
  }

  async #look(): Promise<void> {
    const { bucket, clock, logger } = this.#deps;
    const { name } = bucket;
    let over = false;
    try {
      const { sealed, left } = await this.#sealAll(await bucket.keys('>'));
      over = left === 0;
      if (sealed > 0) logger.info('records_sealed_anew', { bucket: name, records: sealed });
      if (over && (sealed > 0 || !this.#logged) && !this.#closed)
        logger.info('previous_secret_unused', { bucket: name });
      this.#logged ||= over;
    } catch (error) {
      logger.debug('records_not_sealed_anew', { bucket: name, error: String(error) });
    }
    if (!this.#closed) this.#stop = clock.after(over ? LOOK_MS : RETRY_MS, () => void this.#look());
  }

  /** `left`: number of records that another node changed in the meantime. */
  async #sealAll(keys: readonly string[]): Promise<{ sealed: number; left: number }> {
    let sealed = 0;
    let left = 0;
    const seal = async (key: string): Promise<void> => {
      const record = await this.#deps.bucket.get(key);
      const value = record === null ? null : this.#deps.reseal(record);
      if (record === null || value === null) return;
      if ((await this.#deps.bucket.update(key, Buffer.from(value), record.revision)) === null) left++;
      else sealed++;
    };
    for (const some of chunks(keys, MAX_READS)) if (!this.#closed) await Promise.all(some.map(seal));
    return { sealed, left };
  }
}
