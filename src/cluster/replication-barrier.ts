import { pause, within } from '../model/clock.ts';
import type { ClusterDeps } from './cluster-deps.ts';
import { packFrame, unpackFrame } from './frames/frame.ts';
import type { SharedTable } from './shared-table.ts';

const NAME = 'trunkline.heard.sessions';
const MOST_MS = 1_000;
const LOOK_MS = 5;

interface ReplicationBarrierDeps extends Pick<ClusterDeps, 'bus' | 'clock'> {
  readonly table: SharedTable;
  readonly others: () => readonly string[];
}

/** The written record. A node of an earlier version ignores `key` and waits until its watch has reached `revision`. */
interface WrittenRecord {
  readonly key?: string;
  readonly revision: number;
}

/**
 * Waits until all nodes have read a session's record. Watches deliver it with a short delay, and a client's next request must not
 * reach another node before it.
 */
export class ReplicationBarrier {
  readonly #deps: ReplicationBarrierDeps;
  readonly #serving: { close(): void };

  constructor(deps: ReplicationBarrierDeps) {
    this.#deps = deps;
    const { bus, table } = deps;
    this.#serving = bus.serve(NAME, async (serving) => {
      const { key } = unpackFrame<WrittenRecord>(serving.payload).header;
      if (key !== undefined) await table.read(key);
      serving.answer(packFrame({}));
    });
  }

  /** Resolves after at most a second. Never rejects. */
  async put(key: string): Promise<void> {
    const { bus, clock, table, others } = this.#deps;
    const end = clock.now() + MOST_MS;
    while (table.waiting(key) !== undefined) {
      if (clock.now() >= end) return;
      await pause(clock, LOOK_MS);
    }
    const late = (): null => null;
    const revision = await within(clock, end - clock.now(), table.read(key).catch(late), late);
    if (revision === null) return;
    const written: WrittenRecord = { key, revision };
    const deadlineMs = end - clock.now();
    await Promise.all(others().map((to) => bus.call(NAME, packFrame(written), { to, deadlineMs }).outcome));
  }

  close(): void {
    this.#serving.close();
  }
}
