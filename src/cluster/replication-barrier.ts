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

/** What was written. A node of an earlier version waits until it has followed the records up to that revision. */
interface WrittenRecord {
  readonly key?: string;
  readonly revision: number;
}

/**
 * Waits until all nodes know a session's record: they read it. Nodes follow records within a moment; a client whose next request goes
 * to another node must not arrive before.
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

  /** At the latest after a second. Never rejects. */
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
