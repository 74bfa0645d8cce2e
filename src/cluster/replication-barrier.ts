import { type Clock, within } from '../model/clock.ts';
import type { ClusterDeps } from './cluster-deps.ts';
import { packFrame, unpackFrame } from './frames/frame.ts';

const NAME = 'trunkline.heard.sessions';
const MOST_MS = 1_000;

interface ReplicationBarrierDeps extends Pick<ClusterDeps, 'bus' | 'clock'> {
  readonly progress: Progress;
  readonly others: () => readonly string[];
}

/**
 * Waits until all nodes know a session's record. Nodes follow records within a moment; a client whose next request goes to another node
 * must not arrive before.
 */
export class ReplicationBarrier {
  readonly #deps: ReplicationBarrierDeps;
  readonly #serving: { close(): void };

  constructor(deps: ReplicationBarrierDeps) {
    this.#deps = deps;
    const { bus, progress } = deps;
    this.#serving = bus.serve(NAME, async (serving) => {
      const { revision } = unpackFrame<{ revision: number }>(serving.payload).header;
      await progress.heardUpTo(revision, MOST_MS);
      serving.answer(packFrame({}));
    });
  }

  /** At the latest after a second. Never rejects. */
  async put(key: string): Promise<void> {
    const { bus, clock, progress, others } = this.#deps;
    const end = clock.now() + MOST_MS;
    const revision = await progress.written(key, MOST_MS);
    if (revision === null) return;
    const deadlineMs = end - clock.now();
    const asked = others().map((to) => bus.call(NAME, packFrame({ revision }), { to, deadlineMs }).outcome);
    await Promise.all([progress.heardUpTo(revision, deadlineMs), ...asked]);
  }

  close(): void {
    this.#serving.close();
  }
}

interface RevisionWait {
  /** Null: for any record. */
  readonly key: string | null;
  /** At least this. */
  readonly revision: number;
  readonly resolve: (revision: number) => void;
}

/** What this node has written and received of a table. A wait leaves nothing behind: an outage may be long. */
export class Progress {
  readonly #clock: Clock;
  readonly #waiters = new Set<RevisionWait>();
  #upTo = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  /** The revision of the value put last; null if it is not written in time, and for what is too large. */
  written(key: string, withinMs: number): Promise<number | null> {
    return this.#wait(key, 0, withinMs);
  }

  /** When everything up to this revision was received; null if not in time. */
  heardUpTo(revision: number, withinMs: number): Promise<number | null> {
    return revision <= this.#upTo ? Promise.resolve(revision) : this.#wait(null, revision, withinMs);
  }

  wrote(key: string, revision: number): void {
    this.#tell(key, revision);
  }

  heard(revision: number): void {
    if (revision <= this.#upTo) return;
    this.#upTo = revision;
    this.#tell(null, revision);
  }

  /** Revisions may begin again. */
  restart(): void {
    this.#upTo = 0;
  }

  #tell(key: string | null, revision: number): void {
    for (const waiter of this.#waiters) if (waiter.key === key && waiter.revision <= revision) waiter.resolve(revision);
  }

  async #wait(key: string | null, revision: number, withinMs: number): Promise<number | null> {
    const { promise, resolve } = Promise.withResolvers<number>();
    const waiter: RevisionWait = { key, revision, resolve };
    this.#waiters.add(waiter);
    try {
      return await within(this.#clock, withinMs, promise, () => null);
    } finally {
      this.#waiters.delete(waiter);
    }
  }
}
